"""Cancelling: only a job that carries our name, and only believed when SLURM says that it is over."""

from __future__ import annotations

from dataclasses import replace

from tao_run.clock import Clock
from tao_run.errors import BackendRejected
from tao_run.jobs.model import Job, JobState, JobStatus
from tao_run.platforms.slurm.cluster import shell_path
from tao_run.platforms.slurm.observe import GONE, poll
from tao_run.platforms.slurm.remote import Remote
from tao_run.platforms.slurm.submit import command_error

# SLURM gives processes KillWait (30 s by default) between TERM and KILL.
VERIFY_SECONDS = 45.0

# Numbers are reused: the name must be ours. scancel says nothing of jobs that it does not know.
_CANCEL = """\
section scancel scancel --name={name} {job}
"""
_FORGET = "section forget rm -f -- {directory}/env"
_DELETE = "section delete rm -rf -- {directory}"


def cancel(remote: Remote, job: Job, clock: Clock, delete: bool) -> JobStatus:
    """Stop the job and watch it end. If it does not end in time, the status says that it still runs.

    `delete` also removes the job's directory (script, logs) on the cluster; results stay.
    Raises PermissionRefused, BackendUnreachable.
    """
    status = _look(remote, job, clock)
    if not status.state.terminal and status.reason != GONE:
        said = remote.run(_CANCEL.format(name=job.name, job=job.backend_id))["scancel"]
        if said.code and "Invalid job id" not in said.err:
            raise command_error("scancel", said)
        status = _verify(remote, job, clock)
    if status.reason == GONE:
        words = f"SLURM no longer knows job {job.backend_id}: nothing of it runs"
        status = replace(status, state=JobState.CANCELED, message=words)
    if status.state.terminal:
        forget_secrets(remote, job)
        if delete:
            _delete(remote, job)
    return status


def _verify(remote: Remote, job: Job, clock: Clock) -> JobStatus:
    deadline, pause = clock.monotonic() + VERIFY_SECONDS, 0.2
    while True:
        status = _look(remote, job, clock)
        if status.state.terminal or status.reason == GONE:
            return status
        if clock.monotonic() > deadline:
            return replace(status, message=f"cancelled, but SLURM still says {status.native_state}")
        clock.sleep(pause)
        pause = min(2.0, pause * 1.5)


def _look(remote: Remote, job: Job, clock: Clock) -> JobStatus:
    return poll(remote, [job], clock.now())[job.id]


def forget_secrets(remote: Remote, job: Job) -> None:
    """Remove the environment file of a job that SLURM ended before its script could do so."""
    remote.run(_FORGET.format(directory=shell_path(remote.cluster.job_dir(job.name))))


def _delete(remote: Remote, job: Job) -> None:
    directory = remote.cluster.job_dir(job.name)
    said = remote.run(_DELETE.format(directory=shell_path(directory)))["delete"]
    if said.code:
        raise BackendRejected(f"the job is cancelled, but {directory} cannot be removed: {said.err}")
