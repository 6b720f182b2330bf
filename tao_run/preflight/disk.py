"""Free space where a job on this machine writes."""

from __future__ import annotations

import shutil
from pathlib import Path

from tao_run.jobs.model import Check

_GIB = 1 << 30


def check_disk(directory: Path, least_gb: float) -> Check:
    """At least `least_gb` GiB free on the file system of `directory` (or of the nearest parent that exists)."""
    there = directory
    while not there.exists() and there != there.parent:
        there = there.parent
    free = shutil.disk_usage(there).free / _GIB
    detail = f"{free:.1f} GiB free at {there}, {least_gb:g} GiB needed"
    if free >= least_gb:
        return Check("disk", "ok", detail)
    return Check("disk", "failed", detail, "make room, or choose another place with --results")
