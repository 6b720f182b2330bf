"""Values that a shell completes: recorded jobs, groups, platforms, models and actions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from tao_run.errors import TaoRunError

_RECENT = 50


def jobs(incomplete: str) -> Iterator[tuple[str, str]]:
    """Recent jobs by id and name, with their state as help."""
    for job in _recent():
        for reference in (job.id, job.name):
            if reference.startswith(incomplete):
                yield reference, f"{job.name} {job.status.state}"
    if "@last".startswith(incomplete):
        yield "@last", "the newest job"


def groups(incomplete: str) -> Iterator[str]:
    """Groups of recent jobs."""
    found = dict.fromkeys(job.group for job in _recent() if job.group)
    yield from (group for group in found if group.startswith(incomplete))


def platforms(incomplete: str) -> Iterator[str]:
    """Platforms by name."""
    from tao_run.platforms.registry import names

    yield from (name for name in names() if name.startswith(incomplete))


def models(incomplete: str) -> Iterator[str]:
    """Models of the catalog by architecture."""
    yield from (name for name in _model_names() if name.startswith(incomplete))


def actions(incomplete: str) -> Iterator[str]:
    """Actions that any model of the catalog has."""
    from tao_run.catalog import load

    found = sorted({action for summary in load().models() for action in summary.actions})
    yield from (action for action in found if action.startswith(incomplete))


def _recent() -> list[Any]:
    from tao_run.jobs.store import Store, state_dir

    try:
        return Store(state_dir(os.environ)).recent(_RECENT)
    except TaoRunError:
        return []  # a completion offers nothing rather than disturbing the command line


def _model_names() -> list[str]:
    from tao_run.catalog import load

    return sorted({summary.network_arch for summary in load().models()})
