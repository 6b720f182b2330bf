"""Groups of parallel jobs that differ only by `split_id`: recorded whole, then submitted a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tao_run.errors import BackendRejected, CredentialError, NotInstalled, RecordError, TaoRunError, UsageError
from tao_run.jobs.model import Job, new_id
from tao_run.jobs.request import JobRequest, parse_request, to_record

if TYPE_CHECKING:
    from tao_run.jobs.store import Store
    from tao_run.platforms.base import Platform

IN_FLIGHT = 8
PLACEHOLDER = "{split_id}"
_FIELDS = ("command", "spec", "args", "flags", "env", "inputs", "outputs")
#: after one of these the rest would fail in the same way
_HOPELESS = (CredentialError, NotInstalled, RecordError, UsageError, BackendRejected)


class GroupIncomplete(TaoRunError):
    """Some members of a group could not be submitted. The group is recorded, so that it can be completed."""

    code = "group_incomplete"

    def __init__(self, group: str, submitted: Sequence[Job], total: int, cause: TaoRunError) -> None:
        super().__init__(
            f"{len(submitted)} of {total} jobs of group {group} were submitted: {cause.message}",
            f"`tao-run retry --group {group}` submits the rest" + (f"; {cause.hint}" if cause.hint else ""),
        )
        self.exit_code = cause.exit_code
        self.group = group
        self.submitted = tuple(submitted)
        self.cause = cause


def member_of(request: JobRequest, split_id: str) -> JobRequest:
    """The request of one member: `{split_id}` filled in wherever the request says what runs."""
    data = to_record(request)
    for field in _FIELDS:
        if field in data:
            data[field] = _filled(data[field], split_id)
    return parse_request({**data, "split_id": split_id}, f"split {split_id}")


def _filled(value: Any, split_id: str) -> Any:
    if isinstance(value, str):
        return value.replace(PLACEHOLDER, split_id)
    if isinstance(value, Mapping):
        return {_filled(key, split_id): _filled(item, split_id) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, split_id) for item in value]
    return value


def submit_group(platform: Platform, store: Store, request: JobRequest, splits: Sequence[str]) -> list[Job]:
    """Record a group with all its members, then submit them, at most IN_FLIGHT at the same time.

    Returns the jobs in the order of `splits`. Raises GroupIncomplete if not all could be submitted.
    """
    members = [member_of(request, split_id) for split_id in splits]
    group = new_id()
    store.add_group(group, request.name or group, [to_record(member) for member in members])
    platform.note(f"group {group}: {len(members)} jobs; `tao-run watch --group {group}` shows them")
    return submit_members(platform, store, group, members)


def submit_members(platform: Platform, store: Store, group: str, members: Sequence[JobRequest]) -> list[Job]:
    """Submit members of a recorded group. Stops early when the rest would fail in the same way."""
    from tao_run.platforms.lifecycle import build_job, submit

    def one(member: JobRequest) -> Job:
        return submit(platform, store, build_job(platform, member, group=group))

    jobs, errors = _run_all(one, members)
    if errors:
        raise GroupIncomplete(group, jobs, len(members), errors[0])
    return jobs


def _run_all(one: Callable[[JobRequest], Job], members: Sequence[JobRequest]) -> tuple[list[Job], list[TaoRunError]]:
    jobs: list[Job] = []
    errors: list[TaoRunError] = []
    pool = ThreadPoolExecutor(IN_FLIGHT)
    try:
        futures = [pool.submit(one, member) for member in members]
        for future in futures:
            _take(future, jobs, errors)
            if errors and isinstance(errors[-1], _HOPELESS):
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return jobs, errors


def _take(future: Future[Job], jobs: list[Job], errors: list[TaoRunError]) -> None:
    from tao_run.platforms.lifecycle import Unconfirmed

    if future.cancelled():
        return
    try:
        jobs.append(future.result())
    except Unconfirmed as error:
        jobs.append(error.job)  # it may exist, and is in the record
    except TaoRunError as error:
        errors.append(error)


def missing_members(store: Store, group: str) -> tuple[str, list[JobRequest]]:
    """The group's id, and its members that no job in the record stands for."""
    group_id, members = store.group_members(group)
    present = {job.split_id for job in store.in_group(group)}
    wanted = [parse_request(member, "the recorded group") for member in members]
    return group_id, [member for member in wanted if member.split_id not in present]
