"""What a backend knows of a job, as lines of text that rules can look at, and as numbers."""

from __future__ import annotations

from collections.abc import Iterator

from tao_run.analysis.hits import Hit
from tao_run.analysis.ranks import ProcessEnd, first_codes
from tao_run.jobs.model import Evidence, JobState, NodeEvent, Replica

#: events of these names are causes although Kubernetes does not call them warnings
_CAUSES_THOUGH_NORMAL = ("Preempt", "TaintManagerEviction", "NodeNotReady", "NodeShutdown")


def backend_hits(evidence: Evidence, *, started: bool) -> Iterator[tuple[Hit, bool]]:
    """Lines of the backend, and whether each is current (or history that may be over).

    An old event such as a failed scheduling says nothing once the job has started.
    """
    status = evidence.status
    for label, text in (("state", status.native_state), ("reason", status.reason), ("message", status.message)):
        if text:
            yield Hit(f"{label}: {text}", source="status"), True
    for replica in evidence.replicas:
        if replica.issue_reason or replica.issue_message:
            text = f"replica: {replica.issue_reason}: {replica.issue_message}"
            yield _of_replica(replica, text, "replica"), True
    for event in evidence.events:
        if event.warning or event.name.startswith(_CAUSES_THOUGH_NORMAL):
            yield _of_event(event), not started


def exit_hits(evidence: Evidence) -> Iterator[tuple[Hit, int]]:
    """Exit codes that count: those of victims do not, where another replica failed by itself."""
    codes = [(replica, replica.exit_code) for replica in evidence.replicas if replica.exit_code]
    first = first_codes(code for _, code in codes)
    for replica, code in codes:
        if code in first:
            yield _of_replica(replica, f"exit code {code}", "exit"), code
    if not codes and evidence.status.exit_code:
        yield Hit(f"exit code {evidence.status.exit_code}", source="exit"), evidence.status.exit_code


def replica_ends(evidence: Evidence) -> list[ProcessEnd]:
    """How the workers ended, as far as the backend says."""
    ended = [item for item in evidence.replicas if item.exit_code is not None]
    return [ProcessEnd(None, item.exit_code, item.node, place=(item.rank, item.name)) for item in ended]


def has_started(evidence: Evidence) -> bool:
    """Whether the job's own command has run, at least for a moment."""
    status = evidence.status
    ran = any(line.kind == "line" for line in evidence.log_tail)
    ended = status.exit_code is not None or any(item.exit_code is not None for item in evidence.replicas)
    return ran or ended or bool(status.ready) or status.state is JobState.RUNNING


def numbers(evidence: Evidence) -> dict[str, float]:
    """Numeric facts; `pending_without_node_minutes` only for a job that waits and has no node."""
    found: dict[str, float] = {}
    for key, value in evidence.facts.items():
        try:
            found[key] = float(value)
        except ValueError:
            continue
    waits = evidence.status.state is JobState.PENDING and not any(item.node for item in evidence.replicas)
    if waits and "pending_minutes" in found:
        found["pending_without_node_minutes"] = found["pending_minutes"]
    return found


def _of_replica(replica: Replica, text: str, source: str) -> Hit:
    return Hit(text, source=source, node_rank=replica.rank, replica=replica.name, node=replica.node)


def _of_event(event: NodeEvent) -> Hit:
    return Hit(f"event: {event.name}: {event.message}", source="event", time=event.time, node=event.node)
