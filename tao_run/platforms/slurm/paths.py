"""check_path and list_path for paths on the cluster's file systems, looked at from a login host."""

from __future__ import annotations

from tao_run.errors import PermissionRefused, UsageError
from tao_run.platforms.slurm.cluster import shell_path
from tao_run.platforms.slurm.remote import Remote, Section

# Names may hold anything but NUL.
_STAT = "export LC_ALL=C\nsection stat stat -L {path}\n"
_LIST = """\
list() {{
  if [ -d {path} ]; then find -L {path} -mindepth 1 -maxdepth 1 -printf '%p%y\\0'; else printf '%s-\\0' {path}; fi
}}
section list list
"""


def check_path(remote: Remote, path: str) -> bool:
    """Whether there is something at a path. Raises PermissionRefused: refused is not absent."""
    return _exists(remote.run(_STAT.format(path=shell_path(path)))["stat"], path)


def list_path(remote: Remote, path: str) -> list[str]:
    """Full paths directly below `path`, sorted; directories end in a slash. Raises PermissionRefused."""
    answer = remote.run((_STAT + _LIST).format(path=shell_path(path.rstrip("/") or "/")))
    if not _exists(answer["stat"], path):
        return []
    if "Permission denied" in answer["list"].err:
        raise PermissionRefused(f"this user may not list {path} on {remote.cluster.label}")
    found = [item for item in answer["list"].out.split("\0") if item.strip("\n")]
    return sorted(item[:-1] + ("/" if item[-1] == "d" else "") for item in found)


def _exists(said: Section, path: str) -> bool:
    if said.code == 0:
        return True
    if "No such file" in said.err or "Not a directory" in said.err:
        return False
    if "Permission denied" in said.err:
        raise PermissionRefused(f"this user may not look at {path} on the cluster")
    raise UsageError(f"cannot look at {path}: {' '.join(said.err.split())}")
