"""Processes of a job and how they are ended. Standard library only: the supervisor of a job needs it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path


def signal_process(pid: int, number: signal.Signals) -> None:
    """Signal a process; one that has ended meanwhile is no fault."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def signal_groups(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal the process groups that these processes lead."""
    for pid in pids:
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # that group has ended


def group_of(pid: int) -> int | None:
    """The process group of a process; None if it has ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def descendants(root: int) -> list[int]:
    """All living processes below `root`. Empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found: list[int] = []
    level = [root]
    while level:
        level = [pid for parent in level for pid in children.get(parent, ())]
        found += level
    return found


def end_tree(root: int) -> None:
    """Kill a process that nobody supervises, its group, and what has left the group but still descends from it."""
    below = descendants(root)
    signal_groups([root], signal.SIGKILL)
    for pid in below:
        signal_process(pid, signal.SIGKILL)
