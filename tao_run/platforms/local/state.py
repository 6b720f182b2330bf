"""What the files of a local job say about it: one table from what was written to a state."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from tao_run.jobs.model import Job, JobState, JobStatus, Replica
from tao_run.platforms.exits import exit_words
from tao_run.platforms.local.jobdir import JobDir, read_json, read_text

# What the supervisor wrote (`stopped` of exit.json, or where the job stands before that) -> state.
STATES: dict[str, JobState] = {
    "claimed": JobState.PENDING,
    "waiting for GPUs": JobState.PENDING,
    "running": JobState.RUNNING,
    "orphaned": JobState.RUNNING,
    "complete": JobState.COMPLETE,
    "failed": JobState.ERROR,
    "not started": JobState.ERROR,
    "timeout": JobState.ERROR,
    "lost": JobState.ERROR,
    "canceled": JobState.CANCELED,
}

_REASONS = {
    "waiting for GPUs": ("Resources", "waiting until other jobs give back GPUs"),
    "orphaned": ("SupervisorLost", "the ranks run on, but nobody will record how they end"),
    "not started": ("StartFailed", ""),
    "timeout": ("TimeLimit", "the time limit was reached and the job was ended"),
    "lost": ("ProcessLost", "it ended without leaving a record: the machine restarted, or it was killed"),
    "canceled": ("Canceled", ""),
}


def status_of(job: Job, directory: JobDir) -> JobStatus:
    """The status of a job from its directory."""
    ended = read_json(directory.exit)
    if ended is None and directory.supervisor() is None:
        ended = read_json(directory.exit)  # it may have ended between the two looks
        if ended is None and directory.living_ranks():
            return _status(job, "orphaned")
        if ended is None:
            return _status(job, "canceled" if directory.cancel.exists() else "lost")
    if ended is None:
        native = read_text(directory.phase) or "claimed"
        return _status(job, native, ready=job.nodes if native == "running" else 0)
    return _ended(job, ended)


def _ended(job: Job, record: dict[str, Any]) -> JobStatus:
    code, stopped = record["exit_code"], record["stopped"]
    if stopped.startswith("failed: "):
        return _status(job, "not started", message=stopped.removeprefix("failed: "))
    native = stopped or ("complete" if code == 0 else "failed")
    if native == "failed":
        return _status(job, native, code, exit_words(code), reason="ExitCode")
    return _status(job, native, None if native == "canceled" else code)


def _status(
    job: Job,
    native: str,
    exit_code: int | None = None,
    message: str = "",
    *,
    reason: str = "",
    ready: int | None = None,
) -> JobStatus:
    usual_reason, usual_message = _REASONS.get(native, ("", ""))
    return JobStatus(
        state=STATES[native],
        reason=reason or usual_reason,
        message=message or usual_message,
        native_state=native,
        exit_code=exit_code,
        observed_at=datetime.now(timezone.utc),
        ready=ready,
        total=job.nodes,
    )


def replicas_of(job: Job, directory: JobDir, node: str) -> list[Replica]:
    """The ranks of a job, with their exit codes once it has ended."""
    codes = (read_json(directory.exit) or {}).get("ranks") or []
    phase = read_text(directory.phase)
    waiting = phase == "waiting for GPUs" and not codes
    return [
        Replica(
            rank=rank,
            name=f"rank-{rank}",
            node=node,
            phase=_rank_phase(codes[rank]) if rank < len(codes) else phase or "claimed",
            ready=phase == "running" and not codes,
            exit_code=codes[rank] if rank < len(codes) else None,
            issue_reason="Resources" if waiting else "",
            issue_message="waiting until other jobs give back GPUs" if waiting else "",
        )
        for rank in range(job.nodes)
    ]


def _rank_phase(code: int) -> str:
    return "complete" if code == 0 else "failed"
