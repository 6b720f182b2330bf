"""Instances and the jobs they belong to: what runs where, how old it is, and what is left over and costs money."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from tao_run.jobs.model import Job, ResourceTable
from tao_run.platforms.brev.fleet import GONE
from tao_run.platforms.brev.inventory import Instance, InstanceType

_OURS = re.compile(r"[a-z][a-z0-9-]*-([0-9a-f]{16})")


def rows(instances: Sequence[Instance], jobs: Sequence[Job], now: datetime) -> list[dict[str, Any]]:
    """One row per instance. Brev does not tell an age: it is that of the job the instance was rented for."""
    return [_row(instance, jobs, now) for instance in instances]


def _row(instance: Instance, jobs: Sequence[Job], now: datetime) -> dict[str, Any]:
    owner = next((job for job in jobs if job.platform == "brev" and job.name == instance.name), None)
    guests = [job for job in jobs if job.backend_id and job.backend_id.partition("/")[0] == instance.name]
    busy = [job.id for job in guests if not job.status.state.terminal]
    shown = owner or next(iter(guests), None)
    return {
        "name": instance.name,
        "id": instance.id,
        "status": instance.status,
        "type": instance.type,
        "gpu": instance.gpu,
        "rented": owner is not None or _OURS.fullmatch(instance.name) is not None,
        "job": shown.id if shown else "",
        "state": shown.status.state.value if shown else "",
        "launched": bool(owner and owner.backend_id),
        "live_jobs": busy,
        "age": int((now - owner.created_at).total_seconds()) if owner else None,
    }


def leftover(row: dict[str, Any], launching: Callable[[str], bool]) -> str:
    """The line that names an instance which costs money for no running job; empty if it is none."""
    if not row["rented"] or row["status"] == GONE or row["live_jobs"]:
        return ""
    if not row["job"]:
        why = "looks like one of tao-run, and this machine has no record of its job"
    elif row["state"] in ("Complete", "Error", "Canceled"):
        why = f"its job {row['job']} has ended ({row['state']})"
    elif not row["launched"] and not launching(row["job"]):
        why = f"the submission of its job {row['job']} was interrupted"
    else:
        return ""
    age = f"{age_of(row)} old" if age_of(row) else "of unknown age"
    return f"instance {row['name']} ({row['type']}, {age}) costs money: {why}; tao-run instances delete {row['name']}"


def age_of(row: dict[str, Any]) -> str:
    """The age of an instance in words; empty if it is not known."""
    return "" if row["age"] is None else age_words(row["age"])


def age_words(seconds: int) -> str:
    """`5 min`, `3 h 10 min`, `2 d 4 h`."""
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86400
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def types_table(types: Sequence[InstanceType]) -> ResourceTable:
    """The types that can be rented, the cheapest first."""
    ordered = sorted(types, key=lambda item: (item.price is None, item.price or 0.0))
    cells = tuple(
        (item.gpu, str(item.gpus), f"{item.gpu_memory:g}", item.type, item.provider, _price(item)) for item in ordered
    )
    return ResourceTable("instance types", ("gpu", "gpus", "memory GB", "type", "provider", "$/h"), cells)


def _price(item: InstanceType) -> str:
    return "" if item.price is None else f"{item.price:.2f}"


def instances_table(instances: Sequence[dict[str, Any]]) -> ResourceTable:
    """The instances that there are."""
    columns = ("name", "status", "type", "gpu", "job", "age")
    cells = tuple((*(str(row[key]) for key in columns[:-1]), age_of(row)) for row in instances)
    return ResourceTable("instances", columns, cells)
