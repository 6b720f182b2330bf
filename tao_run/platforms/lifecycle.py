"""A job's way through one platform: submit exactly once, observe honestly, cancel and verify."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tao_run.errors import BackendUnreachable, TaoRunError
from tao_run.jobs.model import Job, JobState, JobStatus, job_name, new_id
from tao_run.jobs.request import JobRequest, refuse_secret_values, to_record

if TYPE_CHECKING:
    from tao_run.jobs.store import Store
    from tao_run.platforms.base import Launch, Platform

_FIND_DELAYS = (0.5, 2.0, 5.0)
NEVER_LAUNCHED = "NeverLaunched"


class Unconfirmed(BackendUnreachable):
    """The backend did not answer the submission: the job may exist. The record will find out."""

    code = "unconfirmed"

    def __init__(self, job: Job, cause: TaoRunError) -> None:
        super().__init__(
            f"{cause.message}; it is not known yet whether {job.name} was launched",
            f"`tao-run status {job.id}` finds out; do not submit it again before that",
        )
        self.job = job


def build_job(
    platform: Platform,
    request: JobRequest,
    *,
    job_id: str | None = None,
    group: str | None = None,
    retry_of: str | None = None,
) -> Job:
    """A job for a request: id, name, account and results directory. Records nothing, contacts nothing."""
    platform.credentials.secret_values()  # read them now, so that a value typed in plain text is recognised
    refuse_secret_values(request, "the request")
    request = platform.complete(request)
    job_id = job_id or new_id()
    wanted = request.name or "-".join(filter(None, (request.model, request.action))) or "tao"
    return Job(
        id=job_id,
        name=job_name(wanted, job_id, platform.name_limit),
        platform=platform.name,
        account=platform.account(request),
        spec=to_record(request),
        created_at=platform.clock.now(),
        results_dir=platform.results_dir(request, job_id),
        group=group,
        split_id=request.split_id,
        retry_of=retry_of,
    )


def submit(platform: Platform, store: Store, job: Job) -> Job:
    """Record, launch, confirm. Returns the job with its backend id.

    Raises what `prepare` and `launch` raise; after Unconfirmed the job stays in the record as submitting,
    and `observe` settles it.
    """
    launch = platform.prepare(job)
    job = launch.job  # what prepare discovered (where the results will be) is part of the record
    for note in launch.notes:
        platform.note(note)
    store.add(job, launcher_identity())
    try:
        backend_id = platform.launch(launch)
    except BackendUnreachable as error:
        store.unconfirmed(job.id)
        backend_id = _after_lost_reply(platform, job, error)
    except TaoRunError as error:
        refused = JobStatus(JobState.ERROR, "SubmitRefused", error.message, observed_at=platform.clock.now())
        store.observe(job.id, refused)
        raise
    store.launched(job.id, backend_id)
    return store.get(job.id)


def _after_lost_reply(platform: Platform, job: Job, error: BackendUnreachable) -> str:
    for delay in _FIND_DELAYS:
        platform.clock.sleep(delay)
        try:
            found = platform.find(job)
        except BackendUnreachable:
            continue
        if found is not None:
            return found
    raise Unconfirmed(job, error) from error


def observe(platform: Platform, store: Store, jobs: Sequence[Job]) -> list[Job]:
    """Poll jobs of ONE account and record what was seen. Terminal jobs are not asked about again.

    Raises what `poll` raises; nothing is recorded then.
    """
    live = [_settle_submission(platform, store, job) for job in jobs if not job.status.state.terminal]
    asked = [job for job in live if job.backend_id is not None and not job.status.state.terminal]
    seen = platform.poll(asked) if asked else {}
    now = platform.clock.now()
    updated = store.observe_many(
        {key: replace(value, observed_at=value.observed_at or now) for key, value in seen.items()}
    )
    known = {job.id: job for job in live} | updated
    return [known.get(job.id, job) for job in jobs]


def _settle_submission(platform: Platform, store: Store, job: Job) -> Job:
    """Find out what became of a job whose launch was never confirmed (crash or lost reply)."""
    if job.backend_id is not None:
        return job
    found = platform.find(job)
    if found is not None:
        store.launched(job.id, found)
        return store.get(job.id)
    age = (platform.clock.now() - job.created_at).total_seconds()
    if age < platform.launch_grace or launcher_alive(store.launcher(job.id)):
        return job
    return store.observe(
        job.id,
        JobStatus(
            JobState.ERROR,
            NEVER_LAUNCHED,
            "the submission was interrupted before the backend had the job; nothing runs",
            observed_at=platform.clock.now(),
        ),
    )


def cancel(platform: Platform, store: Store, job: Job, delete: bool = False) -> Job:
    """Stop a job, verify, record what was seen. A job that has ended stays as it ended."""
    job = _settle_submission(platform, store, job)
    if job.status.state.terminal and not delete:
        return job
    if job.backend_id is None:
        raise BackendUnreachable(
            f"{job.name} is still being submitted", f"wait a moment, then `tao-run cancel {job.id}` again"
        )
    status = platform.cancel(job, delete=delete)
    return store.observe(job.id, replace(status, observed_at=status.observed_at or platform.clock.now()))


def dry_run(platform: Platform, request: JobRequest) -> Launch:
    """The native object of a request, as it would be sent. Records nothing and creates nothing."""
    return platform.prepare(build_job(platform, request))


def launcher_identity() -> str:
    """This process, so that others can tell whether a submission is still under way: `host:pid:start`."""
    return f"{socket.gethostname()}:{os.getpid()}:{process_start(os.getpid())}"


def launcher_alive(identity: str) -> bool:
    """Whether the launching process still lives. On another host nobody can tell: then no."""
    host, pid, start = identity.rsplit(":", 2)
    return host == socket.gethostname() and process_start(int(pid)) == start != ""


def launcher_died(identity: str) -> bool:
    """Whether the launching process is known to be dead. On another host nobody can tell: then no."""
    return identity.rsplit(":", 2)[0] == socket.gethostname() and not launcher_alive(identity)


def process_start(pid: int) -> str:
    """When a process started (a pid alone may be reused). Empty if there is none, or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _process_start_ps(pid)
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _process_start_ps(pid: int) -> str:
    if Path("/proc/self/stat").exists():
        return ""
    import subprocess

    found = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )  # macOS has no /proc
    return found.stdout.strip().replace(":", ".")
