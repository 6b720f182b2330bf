"""Whether a path lies below something that the job mounts."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from tao_run.jobs.model import Check


def within(path: str, root: str) -> bool:
    """Whether `path` is `root` or below it, by whole names: `/data1` is not below `/data`."""
    path, root = posixpath.normpath(path), posixpath.normpath(root)
    return root == "/" or path == root or path.startswith(root + "/")


def proof_by_mounts(path: str, mounts: Mapping[str, str], fix: str) -> Check:
    """Proof that a job sees `path`: it lies in one of `mounts` (mount path -> what is mounted there, in words)."""
    found = max((root for root in mounts if within(path, root)), key=len, default=None)
    if found is not None:
        return Check("path", "ok", f"{path} lies in {mounts[found]}, mounted at {found}")
    listed = ", ".join(f"{root} ({what})" for root, what in mounts.items()) or "nothing"
    return Check("path", "failed", f"{path} is in no mount of the job; mounted: {listed}", fix)
