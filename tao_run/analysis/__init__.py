"""Why a job failed: rules as data, applied to its log and to what the backend knows."""

from tao_run.analysis.engine import Analyzer, analyze, analyze_log
from tao_run.analysis.result import FailureAnalysis, FirstFailed

__all__ = ["Analyzer", "FailureAnalysis", "FirstFailed", "analyze", "analyze_log"]
