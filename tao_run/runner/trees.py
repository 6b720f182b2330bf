"""What is delivered: directory trees and where they go, walked with excludes, symlinks followed once."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Iterator, NamedTuple, Sequence, Set, Tuple


class Found(NamedTuple):
    """One file of a tree. `relative` is its path inside the tree; `mtime` is in ns."""

    path: str
    relative: str
    size: int
    mtime: int


@dataclass(frozen=True)
class Tree:
    """`root` (a directory or one file) goes below `target`: an s3:// URI, or a directory that persists.

    `skip` are absolute directories inside it that are none of its business.
    """

    root: str
    target: str
    skip: Tuple[str, ...] = ()


def walk(tree: Tree, excludes: Sequence[str]) -> Iterator[Found]:
    """The files of a tree. What vanishes meanwhile, special files and broken links are left out."""
    if os.path.isfile(tree.root):
        yield from _file(tree.root, os.path.basename(tree.root), excludes)
    else:
        yield from _folder(tree, tree.root, "", excludes, set())


def _folder(tree: Tree, folder: str, inside: str, excludes: Sequence[str], seen: Set[str]) -> Iterator[Found]:
    real = os.path.realpath(folder)
    if real in seen or _skipped(tree, real):
        return
    seen.add(real)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        relative = f"{inside}/{entry.name}" if inside else entry.name
        if entry.name == ".tao-run":
            continue
        if entry.is_dir():
            if not excluded(relative + "/", excludes):
                yield from _folder(tree, entry.path, relative, excludes, seen)
        elif not (entry.is_symlink() and _skipped(tree, os.path.realpath(entry.path))):
            yield from _file(entry.path, relative, excludes)


def _skipped(tree: Tree, real: str) -> bool:
    """Whether a real path is in a directory to skip. A tree that itself lies in one (a mount) keeps its own."""
    root = os.path.realpath(tree.root)
    return any(
        _within(real, skip) and not (_within(root, skip) and _within(real, root))
        for skip in map(os.path.realpath, tree.skip)
    )


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _file(path: str, relative: str, excludes: Sequence[str]) -> Iterator[Found]:
    if excluded(relative, excludes):
        return
    try:
        found = os.stat(path)
    except OSError:
        return
    if stat.S_ISREG(found.st_mode):
        yield Found(path, relative, found.st_size, found.st_mtime_ns)


def excluded(relative: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches: `name/` a directory of that name or path, else a path or a file's name."""
    is_folder = relative.endswith("/")
    path = relative.rstrip("/")
    name = path.rpartition("/")[2]
    for pattern in patterns:
        bare = pattern.strip("/")
        if pattern.endswith("/") and not is_folder:
            continue
        if fnmatchcase(path, bare) or ("/" not in bare and fnmatchcase(name, bare)):
            return True
    return False
