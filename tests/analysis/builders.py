"""Reads the fixtures: saved logs, and what backends say of a job as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tao_run.analysis import FailureAnalysis, analyze, analyze_log
from tao_run.jobs.model import Evidence, JobState, JobStatus, LogLine, NodeEvent, Replica

FIXTURES = Path(__file__).parent / "fixtures"


def evidence(data: dict[str, Any]) -> Evidence:
    """Evidence from plain data; `log` is text."""
    status = dict(data["status"])
    return Evidence(
        status=JobStatus(state=JobState(status.pop("state")), **status),
        replicas=tuple(Replica(**item) for item in data.get("replicas", ())),
        events=tuple(NodeEvent(**item) for item in data.get("events", ())),
        log_tail=tuple(LogLine(text) for text in data.get("log", "").splitlines()),
        native=data.get("native"),
        facts=data.get("facts", {}),
    )


def analyze_fixture(path: Path) -> FailureAnalysis | None:
    """The analysis of a fixture of either kind."""
    if path.suffix == ".yaml":
        return analyze(evidence(yaml.safe_load(path.read_text())))
    with path.open("rb") as stream:
        return analyze_log(stream)
