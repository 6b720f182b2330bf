"""One watched job as a typed row, and the summary of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tao_run.cli.rows import JobRow, job_row
from tao_run.jobs.model import Job


@dataclass(frozen=True)
class WatchRow(JobRow):
    """A job as `status` shows it, with why it failed and when it last changed."""

    cause: str = ""
    changed_at: datetime | None = None
    event: str = "job"

    @property
    def key(self) -> tuple[object, ...]:
        """What counts as a change."""
        return self.state, self.reason, self.native_state, self.reachable, self.ready, self.total


@dataclass(frozen=True)
class WatchSummary:
    """All watched jobs in numbers; `exit_code` once the watch has ended."""

    jobs: int
    states: dict[str, int]
    stale: int
    exit_code: int | None = None
    event: str = "summary"


def watch_row(job: Job, now: datetime, changed_at: datetime | None) -> WatchRow:
    """A job as a row, at a moment."""
    return WatchRow(**vars(job_row(job, now)), changed_at=changed_at)


def summary(rows: Sequence[JobRow], exit_code: int | None = None) -> WatchSummary:
    """How many jobs are in which state, and how many were not reached at the last look."""
    states = Counter(row.state for row in rows)
    return WatchSummary(len(rows), dict(sorted(states.items())), sum(not row.reachable for row in rows), exit_code)
