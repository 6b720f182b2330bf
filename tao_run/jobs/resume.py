"""Continues from another job: its furthest checkpoint becomes what the new request starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tao_run.errors import UsageError
from tao_run.jobs.checkpoints import checkpoints_of, furthest
from tao_run.jobs.model import Job
from tao_run.jobs.request import JobRequest, parse_request, to_record
from tao_run.jobs.speckeys import set_value

if TYPE_CHECKING:
    from tao_run.platforms.base import Platform

SPEC_KEY = "resume_training_checkpoint_path"
VARIABLE = "TAO_RUN_RESUME"


def with_resume(request: JobRequest, job: Job, platform: Platform) -> tuple[JobRequest, str]:
    """The request, starting from the furthest checkpoint of `job`, and where that checkpoint is.

    `platform` is the one that `job` ran on. A spec gets it as its resume_training_checkpoint_path: an object
    as an input that is downloaded, a path as it is. Without a spec the variable TAO_RUN_RESUME names it.
    Raises UsageError if there is none.
    """
    place = _place(job, platform)
    data = {**to_record(request), "resume": job.id}
    if request.spec is None:
        data["env"] = {**request.env, VARIABLE: place}
        return parse_request(data, "--resume"), place
    keys = list(_keys(request.spec)) or [f"train.{SPEC_KEY}"]
    for key in keys:
        if "://" in place:
            data["inputs"] = {**(data.get("inputs") or {}), key: place}
        else:
            data["spec"] = set_value(data["spec"], key, place)
    return parse_request(data, "--resume"), place


def _place(job: Job, platform: Platform) -> str:
    if not job.results_dir:
        raise UsageError(f"{job.name} has no durable results, so there is nothing to continue from")
    found = furthest(checkpoints_of(platform.list_results(job)))
    if found is None:
        raise UsageError(
            f"no checkpoint is among the results of {job.name}",
            f"`tao-run results {job.id} --list` shows what is there",
        )
    return f"{job.results_dir.rstrip('/')}/{found.path}"


def _keys(value: Any, above: str = "") -> Iterator[str]:
    """The keys of a spec that say where to resume from, also inside lists."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _keys(item, f"{above}[{index}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            path = f"{above}.{key}" if above else str(key)
            if key == SPEC_KEY:
                yield path
            else:
                yield from _keys(item, path)
