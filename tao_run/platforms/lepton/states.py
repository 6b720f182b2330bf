"""Lepton's job states and what they mean here: one table, and the reading of a job document with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tao_run.jobs.model import JobState, JobStatus
from tao_run.platforms.lepton.documents import number, part, word
from tao_run.platforms.lepton.faults import plain


@dataclass(frozen=True)
class Meaning:
    """What a native state says: our state, and in words what goes on."""

    state: JobState
    words: str = ""


#: leptonai 0.47 `LeptonJobState`, complete. `Archived` and `Deleted` do not say how the job ended:
#: `_ended_before` finds that out, and what stands here is for when nothing else is known.
NATIVE_STATES: dict[str, Meaning] = {
    "Queueing": Meaning(JobState.PENDING, "waits for capacity or quota"),
    "Awaiting": Meaning(JobState.PENDING, "waits for its scheduled start or admission"),
    "Starting": Meaning(JobState.PENDING, "workers are being placed and images pulled"),
    "Running": Meaning(JobState.RUNNING),
    "PendingRetry": Meaning(JobState.PENDING, "failed and waits for its next attempt"),
    "Restarting": Meaning(JobState.PENDING, "starts its next attempt"),
    "Stopping": Meaning(JobState.RUNNING, "is being stopped; its workers are not gone yet"),
    "Deleting": Meaning(JobState.RUNNING, "is being deleted; its workers are not gone yet"),
    "Terminating": Meaning(JobState.RUNNING, "is being terminated; its workers are not gone yet"),
    "Completed": Meaning(JobState.COMPLETE),
    "Failed": Meaning(JobState.ERROR, "a worker failed"),
    "Stopped": Meaning(JobState.CANCELED, "was stopped"),
    "Deleted": Meaning(JobState.CANCELED, "was deleted"),
    "Archived": Meaning(JobState.UNKNOWN, "is archived, and the record does not say how it ended"),
    "UNK": Meaning(JobState.UNKNOWN, "Lepton itself does not know the state"),
}
_RECORD_ONLY = ("Archived", "Deleted")


def read_status(job: Mapping[str, Any], last_seen: JobStatus, now: datetime) -> JobStatus:
    """The status that a job document shows.

    A state that is not in the table is shown as it is and is neither an end nor a failure. `last_seen` decides
    only for an archived job whose counters say nothing.
    """
    status, spec = part(job, "status"), part(job, "spec")
    native = word(status.get("state"))
    meaning = _meaning(native, status, spec, last_seen)
    ready, total = number(status.get("ready")), number(spec.get("completions")) or 1
    message = meaning.words
    if native == "Running" and ready < total:
        message = f"{ready} of {total} workers ready"
    return JobStatus(
        state=meaning.state,
        reason=_reason(native, meaning.state),
        message=message,
        native_state=plain(native),
        observed_at=now,
        ready=ready,
        total=total,
    )


def _meaning(native: str, status: Mapping[str, Any], spec: Mapping[str, Any], last_seen: JobStatus) -> Meaning:
    if not native:
        return Meaning(JobState.PENDING, "was accepted a moment ago")
    if native in _RECORD_ONLY:
        return _ended_before(status, spec, last_seen) or NATIVE_STATES[native]
    return NATIVE_STATES.get(native) or Meaning(
        JobState.UNKNOWN, f"Lepton says {plain(native)}, a state this version does not know"
    )


def _ended_before(status: Mapping[str, Any], spec: Mapping[str, Any], last_seen: JobStatus) -> Meaning | None:
    """How a job ended that is now archived or deleted: by its counters, its stop flag, or what was seen last."""
    if number(status.get("succeeded")) >= (number(spec.get("completions")) or 1):
        return Meaning(JobState.COMPLETE, "completed, then archived")
    if number(status.get("failed")) > 0:
        return Meaning(JobState.ERROR, "failed, then archived")
    if spec.get("stopped"):
        return Meaning(JobState.CANCELED, "was stopped, then archived")
    if last_seen.state.terminal:
        return Meaning(last_seen.state, last_seen.message)
    return None


def _reason(native: str, state: JobState) -> str:
    return "" if native in ("Running", "Completed") else plain(native) or str(state)
