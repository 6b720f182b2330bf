"""Look at many jobs of many platforms at once: one poll per account, all accounts concurrently, errors kept apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tao_run.errors import TaoRunError
from tao_run.jobs.model import Job

if TYPE_CHECKING:
    from tao_run.jobs.store import Store
    from tao_run.platforms.base import Platform

Account = tuple[str, str]
_MOST_AT_ONCE = 16


@dataclass(frozen=True)
class Sweep:
    """One look at jobs, in the order asked. Jobs of an account that did not answer keep their last state,
    marked as not reachable; `faults` says why."""

    jobs: tuple[Job, ...]
    faults: dict[Account, TaoRunError]

    @property
    def ended(self) -> bool:
        """Whether every job has ended."""
        return all(job.status.state.terminal for job in self.jobs)


def refresh(jobs: Sequence[Job], platform_of: Callable[[Job], Platform], store: Store) -> Sweep:
    """Observe the jobs that have not ended and record what was seen."""
    groups = _by_account(job for job in jobs if not job.status.state.terminal)
    seen: dict[str, Job] = {}
    faults: dict[Account, TaoRunError] = {}
    for account, outcome in zip(groups, _observe_all(list(groups.values()), platform_of, store), strict=True):
        if isinstance(outcome, TaoRunError):
            faults[account] = outcome
            outcome = [_unreached(job, outcome) for job in groups[account]]
        seen |= {job.id: job for job in outcome}
    return Sweep(tuple(seen.get(job.id, job) for job in jobs), faults)


def _by_account(jobs: Iterable[Job]) -> dict[Account, list[Job]]:
    groups: dict[Account, list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.platform, job.account), []).append(job)
    return groups


def _observe_all(
    groups: list[list[Job]], platform_of: Callable[[Job], Platform], store: Store
) -> list[list[Job] | TaoRunError]:
    def one(jobs: list[Job]) -> list[Job] | TaoRunError:
        from tao_run.platforms.lifecycle import observe

        try:
            return observe(platform_of(jobs[0]), store, jobs)
        except TaoRunError as error:
            return error

    if len(groups) <= 1:
        return [one(jobs) for jobs in groups]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(len(groups), _MOST_AT_ONCE)) as pool:
        return list(pool.map(one, groups))


def _unreached(job: Job, error: TaoRunError) -> Job:
    return replace(job, status=replace(job.status, reachable=False, message=error.message))
