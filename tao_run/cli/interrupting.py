"""What Ctrl-C says: what goes on, and the exact commands to come back and to stop it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tao_run.errors import Interrupted, NoSuchJob

if TYPE_CHECKING:
    from tao_run.jobs.model import Job
    from tao_run.jobs.store import Store

_MOST_NAMED = 8


def detached(jobs: Sequence[Job], come_back: str = "tao-run watch") -> Interrupted:
    """Looking at jobs was interrupted: those that have not ended go on."""
    live = [job.id for job in jobs if not job.status.state.terminal]
    if not live:
        return Interrupted("interrupted")
    names = " ".join(live) if len(live) <= _MOST_NAMED else "--all"
    stop = " ".join(live[:_MOST_NAMED]) + (" ..." if len(live) > _MOST_NAMED else "")
    return Interrupted(
        f"detached; {len(live)} of {len(jobs)} jobs go on",
        f"come back: {come_back} {names}\n  stop:      tao-run cancel {stop}",
    )


def while_submitting(job: Job, store: Store) -> Callable[[], Interrupted]:
    """A submission was interrupted: whether there is a job is known to the record."""

    def say() -> Interrupted:
        try:
            store.get(job.id)
        except NoSuchJob:
            return Interrupted("interrupted; nothing was submitted")
        return Interrupted(
            f"interrupted while {job.name} was being submitted",
            f"find out:  tao-run status {job.id}\n  stop:      tao-run cancel {job.id}",
        )

    return say


def while_submitting_group() -> Interrupted:
    """The submission of a group was interrupted: the group knows its members, submitted or not."""
    return Interrupted(
        "interrupted while the group was being submitted",
        "find out:  tao-run status\n  the rest:  tao-run retry --group GROUP submits what was not",
    )
