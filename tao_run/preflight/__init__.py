"""Everything that must be true before a launch: checks that return data, run side by side."""

from __future__ import annotations

from tao_run.preflight.launch import run
from tao_run.preflight.report import Report
from tao_run.preflight.wanted import Wanted

__all__ = ["Report", "Wanted", "run"]
