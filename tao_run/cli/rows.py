"""A job as `status` and `watch` show it; its keys are those of the JSON output."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tao_run.jobs.model import Job


@dataclass(frozen=True)
class JobRow:
    """One job as `status` and `watch` show it. `age_seconds` is since submission, `seen_seconds` since observation."""

    id: str
    name: str
    platform: str
    state: str
    reason: str
    message: str
    native_state: str
    exit_code: int | None
    reachable: bool
    ready: int | None
    total: int | None
    submitted_at: datetime
    observed_at: datetime | None
    age_seconds: float
    seen_seconds: float | None
    results_dir: str
    backend_id: str | None
    account: str
    group: str | None
    split_id: str | None
    retry_of: str | None


def job_row(job: Job, now: datetime) -> JobRow:
    """A job as a row, at a moment."""
    status = job.status
    seen = None if status.observed_at is None else (now - status.observed_at).total_seconds()
    return JobRow(
        id=job.id,
        name=job.name,
        platform=job.platform,
        state=status.state.value,
        reason=status.reason,
        message=status.message,
        native_state=status.native_state,
        exit_code=status.exit_code,
        reachable=status.reachable,
        ready=status.ready,
        total=status.total,
        submitted_at=job.created_at,
        observed_at=status.observed_at,
        age_seconds=round((now - job.created_at).total_seconds(), 3),
        seen_seconds=None if seen is None else round(max(0.0, seen), 3),
        results_dir=job.results_dir,
        backend_id=job.backend_id,
        account=job.account,
        group=job.group,
        split_id=job.split_id,
        retry_of=job.retry_of,
    )


@dataclass(frozen=True)
class StatusList:
    """Result of `status`. `errors`: why some jobs could not be asked about."""

    jobs: tuple[JobRow, ...]
    notes: tuple[str, ...] = ()
    errors: tuple[dict[str, Any], ...] = ()
