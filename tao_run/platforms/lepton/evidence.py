"""What Lepton knows of how a job went: its own analysis, replicas, events, the end of the log, and plain facts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tao_run.errors import BackendRejected
from tao_run.jobs.model import Evidence, Job, JobState, JobStatus, LogLine, LogQuery, NodeEvent
from tao_run.platforms.lepton.api import LeptonApi, job_path
from tao_run.platforms.lepton.documents import moment, number, part, parts, strings, word
from tao_run.platforms.lepton.ends import End, Marks, explain, with_codes
from tao_run.platforms.lepton.faults import plain
from tao_run.platforms.lepton.logs import JobLog
from tao_run.platforms.lepton.observing import Observer
from tao_run.platforms.lepton.states import read_status

_TAIL = 2_000
_SETTLED_SECONDS = 60.0  # after that the end of a log is in the log service


def collect(api: LeptonApi, observer: Observer, job: Job, document: Mapping[str, Any]) -> Evidence:
    """All evidence of a job. Parts that Lepton does not have (an analysis, events of the archive) are left out."""
    status = read_status(document, job.status, api.clock.now())
    ends = observer.ends(job, dict(document))
    log = JobLog(api, document, job.created_at, Marks(job.id))
    tail = deque(log.lines(LogQuery(tail=_TAIL)), maxlen=_TAIL)
    native = _or_nothing(lambda: api.get(job_path(str(job.backend_id), "failure-analysis")))
    events = _or_nothing(lambda: api.rows(job_path(str(job.backend_id), "events"))) or []
    return Evidence(
        status=explain(status, ends),
        replicas=tuple(with_codes(observer.replicas(job), ends)),
        events=tuple(_event(row) for row in events),
        log_tail=tuple(tail),
        native=native if isinstance(native, dict) else None,
        facts=_facts(job, document, status, ends, tail, api.clock.now()),
    )


def _or_nothing(ask: Callable[[], Any]) -> Any:
    """The answer, or None where Lepton says that there is none."""
    try:
        return ask()
    except BackendRejected:
        return None


def _event(row: Mapping[str, Any]) -> NodeEvent:
    about = part(row, "regarding")
    said = word(row.get("message")) or word(row.get("note"))
    return NodeEvent(
        name=plain(word(row.get("reason"))),
        message=plain(said or f"{word(about.get('kind'))} {word(about.get('name'))}"),
        time=_when(row.get("last_observed_time")),
        warning=row.get("type") == "Warning",
        count=number(row.get("count")) or 1,
    )


def _when(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None


def _facts(
    job: Job,
    document: Mapping[str, Any],
    status: JobStatus,
    ends: list[End],
    tail: deque[LogLine],
    now: datetime,
) -> dict[str, str]:
    native = part(document, "status")
    facts = {"attempts": str(len(parts(native, "job_history")) + 1)}
    shared = not strings(part(part(document, "spec"), "affinity"), "allowed_dedicated_node_groups")
    facts["capacity"] = "shared" if shared else "dedicated"
    if status.state is JobState.PENDING:
        since = moment(native.get("creation_time")) or job.created_at
        facts["pending_minutes"] = f"{(now - since).total_seconds() / 60:.1f}"
    if _killed_from_outside(native, status, ends, tail, now):
        facts["end"] = "Evicted or lost with its node: the program was running and no exit code was logged"
    return facts


def _killed_from_outside(
    native: Mapping[str, Any], status: JobStatus, ends: list[End], tail: deque[LogLine], now: datetime
) -> bool:
    """Whether a program that had begun to talk vanished: our wrapper logs every end that it lives to see."""
    ended = moment(native.get("completion_time"))
    settled = ended is not None and (now - ended).total_seconds() > _SETTLED_SECONDS
    talked = any(line.kind == "line" for line in tail)
    return status.state is JobState.ERROR and not ends and talked and settled
