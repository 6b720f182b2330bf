"""Runs failed jobs again: only what failed, only where it makes sense, each attempt linked and made once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from tao_run.errors import RecordError, TaoRunError, UsageError
from tao_run.jobs.evidence import evidence_of
from tao_run.jobs.model import ID_LENGTH, Job, JobState
from tao_run.jobs.resume import with_resume
from tao_run.jobs.splits import missing_members, submit_members

if TYPE_CHECKING:
    from tao_run.analysis import FailureAnalysis
    from tao_run.jobs.request import JobRequest
    from tao_run.jobs.store import Store
    from tao_run.platforms.base import Platform

#: reasons of jobs that the backend never ran: to submit them again is what a retry is for
NEVER_LAUNCHED = "NeverLaunched"
SUBMIT_REFUSED = "SubmitRefused"


def latest_attempt(store: Store, job: Job) -> Job:
    """The job itself, or the newest that repeats it, or repeats that one."""
    while retries := store.retries_of(job.id):
        job = retries[-1]
    return job


def attempts_before(store: Store, job: Job) -> int:
    """How many attempts came before this job."""
    count = 0
    while job.retry_of is not None:
        job = store.get(job.retry_of)
        count += 1
    return count


def why_not(job: Job, analysis: FailureAnalysis | None) -> str:
    """Why running this job again makes no sense; empty if it does."""
    if job.status.state is JobState.COMPLETE:
        return "it is complete"
    if job.status.state is JobState.CANCELED:
        return "it was canceled"
    if not job.status.state.terminal:
        return f"it has not failed: it is {job.status.state}"
    if job.status.reason in (NEVER_LAUNCHED, SUBMIT_REFUSED):
        return ""
    if analysis is None or not analysis.retryable:
        cause = analysis.title if analysis else "nothing says that the infrastructure was at fault"
        return f"the same job would fail again ({cause})"
    return ""


def analysis_of(platform: Platform, job: Job, now: datetime) -> FailureAnalysis | None:
    """Why a job failed. Raises what `Platform.evidence` raises."""
    from tao_run.analysis import analyze

    return analyze(evidence_of(platform, job, now))


def retry(
    platform: Platform, store: Store, job: Job, analysis: FailureAnalysis | None = None, resume: bool = False
) -> Job:
    """Submit `job` again, with the same split id and a link to it, away from nodes that were at fault.

    With `resume` it starts from the furthest checkpoint of `job`.

    The id of the new job follows from the old one's: two processes that retry at the same time make one job,
    and the slower gets the faster one's. Raises what `submit` raises.
    """
    from tao_run.platforms.lifecycle import build_job, submit

    request = job.request
    if resume:
        request, place = with_resume(request, job, platform)
        platform.note(f"continuing from {place}")
    nodes = analysis.avoid_nodes if analysis else ()
    if nodes:
        request = platform.avoid_nodes(request, nodes)
    before = store.retries_of(job.id)
    built = build_job(platform, request, job_id=_retry_id(job.id, len(before)), group=job.group, retry_of=job.id)
    again = replace(built, account=job.account)  # where the job lived, whatever the environment says now
    try:
        return submit(platform, store, again)
    except RecordError:
        made = [other for other in store.retries_of(job.id) if other.id == again.id]
        if made:
            return made[0]
        raise


def _retry_id(job_id: str, number: int) -> str:
    return hashlib.sha256(f"{job_id}:retry:{number}".encode()).hexdigest()[:ID_LENGTH]


class AutomaticRetry:
    """Resubmits jobs that asked for it (`retries`) after failures of the infrastructure; used while watching.

    `note` is told what is done and why. An error while looking or submitting is told as well: the job then
    stays failed, which `tao-run retry` can repair.
    """

    def __init__(
        self,
        platform_of: Callable[[Job], Platform],
        store: Store,
        analysis_of: Callable[[Job], FailureAnalysis | None],
        note: Callable[[str], None],
    ) -> None:
        self._platform_of = platform_of
        self._store = store
        self._analysis_of = analysis_of
        self._note = note

    def __call__(self, job: Job) -> Job | None:
        """The job that takes the place of one that has ended, or None."""
        existing = latest_attempt(self._store, job)
        if existing.id != job.id:
            return existing
        if job.status.state is not JobState.ERROR or job.status.reason == SUBMIT_REFUSED:
            return None
        allowed = int(job.spec.get("retries") or 0)
        done = attempts_before(self._store, job)
        if done >= allowed:
            return None
        from tao_run.platforms.lifecycle import Unconfirmed

        try:
            return self._again(job, done, allowed)
        except Unconfirmed as error:
            self._note(f"{job.name}: {error.message}")
            return error.job
        except TaoRunError as error:
            self._note(f"{job.name}: not retried: {error.message}")
            return None

    def _again(self, job: Job, done: int, allowed: int) -> Job | None:
        platform = self._platform_of(job)
        analysis = self._analysis_of(job)
        reason = why_not(job, analysis)
        if reason:
            self._note(f"{job.name}: not retried: {reason}")
            return None
        again = retry(platform, self._store, job, analysis)
        cause = analysis.title if analysis else "it was never launched"
        self._note(f"{job.name}: {cause}; retry {done + 1} of {allowed} is {again.name}")
        return again


def check_worth(job: Job, analysis: FailureAnalysis | None) -> None:
    """Raises UsageError if running this job again makes no sense."""
    reason = why_not(job, analysis)
    if reason:
        hint = f"`tao-run analyze {job.id}` says what to change; --force runs it again as it is"
        raise UsageError(f"{job.name} is not retried: {reason}", hint)


def retry_latest(platform: Platform, store: Store, job: Job, *, force: bool = False, resume: bool = False) -> Job:
    """Look at the latest attempt of a job and submit it again. Raises UsageError if that makes no sense.

    `force` overrules the analysis and a cancel; what is alive or complete is never run a second time.
    """
    from tao_run.platforms.lifecycle import observe

    latest = observe(platform, store, [latest_attempt(store, job)])[0]
    if latest.id != job.id:
        platform.note(f"{job.name} was retried before; its latest attempt is {latest.name}")
    if not latest.status.state.terminal or latest.status.state is JobState.COMPLETE:
        check_worth(latest, None)
    if force:
        return retry(platform, store, latest, resume=resume)
    analysis = analysis_of(platform, latest, platform.clock.now()) if latest.status.state is JobState.ERROR else None
    check_worth(latest, analysis)
    return retry(platform, store, latest, analysis, resume)


def retry_group(
    platform_of: Callable[[Job | JobRequest], Platform],
    store: Store,
    group: str,
    note: Callable[[str], None],
    *,
    force: bool = False,
    resume: bool = False,
) -> list[Job]:
    """What failed in a group is submitted again, and what was never submitted is submitted; the rest is left alone.

    `note` is told of each failed job that is not retried, and why. Raises GroupIncomplete, NoSuchJob.
    """
    group_id, missing = missing_members(store, group)
    latest = {found.id: found for found in (latest_attempt(store, job) for job in store.in_group(group))}
    again: list[Job] = []
    for job in latest.values():
        try:
            again.append(retry_latest(platform_of(job), store, job, force=force, resume=resume))
        except TaoRunError as error:
            if not isinstance(error, UsageError) or _failed(store, job):
                note(error.message)
    if missing:
        note(f"{len(missing)} members of the group were never submitted; they are now")
        again += submit_members(platform_of(missing[0]), store, group_id, missing)
    return again


def _failed(store: Store, job: Job) -> bool:
    return store.get(job.id).status.state in (JobState.ERROR, JobState.CANCELED)
