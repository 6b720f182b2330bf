"""The end of a job: stop it and see it stopped; keep its log, then delete the instance that was rented for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tao_run.errors import BackendRejected, BackendUnreachable, TaoRunError
from tao_run.jobs.model import Job, JobState, JobStatus, LogLine
from tao_run.platforms.brev import scripts
from tao_run.platforms.brev.fleet import Fleet
from tao_run.platforms.brev.observing import job_events, look_at
from tao_run.platforms.brev.options import BrevOptions
from tao_run.platforms.brev.saved import Saved
from tao_run.platforms.brev.states import INSTANCE_STATES

_TRIES = 3
_PAUSE = 5.0


def _place(job: Job) -> tuple[str, BrevOptions]:
    name = (job.backend_id or job.name).partition("/")[0]
    return name, BrevOptions.model_validate(dict(job.options))


def stop(fleet: Fleet, job: Job, observe: Callable[[Job], JobStatus]) -> JobStatus:
    """Stop a job and return what was then observed.

    A job on an instance that is not running yet, or not any more, is stopped by deleting the instance if it
    was rented for the job; on another's instance that does not run, nothing can be done.
    """
    name, options = _place(job)
    instance = fleet.get(name, job.account)
    if instance is None or look_at(fleet, name, job.account) is not None:
        if instance is not None:
            done = fleet.cli.exec(name, scripts.stop(job.name))
            if done.code != 0:
                fleet.note(f"docker on {name}: {done.text.strip()[-200:]}")
        return observe(job)
    if not options.rented:
        raise BackendUnreachable(
            f"instance {name} is {instance.status}: {job.name} cannot be stopped", f"brev start {name}, then again"
        )
    if INSTANCE_STATES[instance.status] == (JobState.PENDING, "InstanceBooting") or not options.keep_instance:
        fleet.delete(name)
        return JobStatus(JobState.CANCELED, "Canceled", f"instance {name} was deleted", instance.status)
    return observe(job)


def forget(fleet: Fleet, job: Job, saved: Saved, log: Callable[[], Iterator[LogLine]]) -> list[str]:
    """Remove a job's container and files from an instance that stays; its log is kept here. Returns notes."""
    name, _ = _place(job)
    instance = look_at(fleet, name, job.account)
    if instance is None:
        return []
    notes = [] if saved.exists else keep(fleet, job, instance.type, saved, log)
    fleet.cli.exec(name, scripts.remove(job.name))
    return notes


def settle(fleet: Fleet, job: Job, saved: Saved, log: Callable[[], Iterator[LogLine]]) -> list[str]:
    """Delete the instance that was rented for a job which has ended, its log kept here first. Returns notes.

    Never raises: a note names what is left, and the command that deletes it.
    """
    name, options = _place(job)
    by_hand = f"tao-run instances delete {name}"
    try:
        instance = fleet.get(name, job.account)
        if instance is None:
            return []
        if options.keep_instance:
            return [f"instance {name} is kept and costs money: {by_hand}"]
        notes = [] if saved.exists else keep(fleet, job, instance.type, saved, log)
        fleet.delete(name)
    except TaoRunError as error:
        return [f"instance {name} is left and costs money ({error.message}): {by_hand}"]
    return [*notes, f"instance {name} was deleted"]


def clear(fleet: Fleet, job: Job) -> list[str]:
    """Remove what a submission that was interrupted left on an instance. Never raises: a note says what is left."""
    _, options = _place(job)
    name = options.instance or ""
    try:
        if look_at(fleet, name, job.account) is not None:
            fleet.cli.exec(name, scripts.remove(job.name))
    except TaoRunError as error:
        return [f"files of {job.name} may be left on {name} in ~/{scripts.ROOT}/{job.name} ({error.message})"]
    return []


def keep(fleet: Fleet, job: Job, kind: str, saved: Saved, log: Callable[[], Iterator[LogLine]]) -> list[str]:
    """Save the log and what is known of how the job ended, before they go. Returns a note if that fails."""
    name, _ = _place(job)
    status = job.status
    facts: dict[str, Any] = {"instance": name, "instance_type": kind, "instance_status": "deleted"}
    facts["events"] = [[event.name, event.message] for event in job_events(status, name)]
    facts["status"] = {
        "state": status.state.value,
        "reason": status.reason,
        "message": status.message,
        "native_state": status.native_state,
        "exit_code": status.exit_code,
    }
    if look_at(fleet, name, job.account) is None:
        return [f"the log of {job.name} is lost: instance {name} does not run"]
    for left in reversed(range(_TRIES)):
        try:
            saved.write(log(), facts)
            return []
        except (BackendUnreachable, BackendRejected) as error:
            if not left:
                return [f"the log of {job.name} could not be saved: {error.message}"]
        fleet.clock.sleep(_PAUSE)
    return []
