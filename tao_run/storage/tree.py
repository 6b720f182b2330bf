"""Whole trees below a results directory: list every file, or download them all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from tao_run.errors import UsageError
from tao_run.storage.s3 import S3Store
from tao_run.storage.uris import Location, parse_location

if TYPE_CHECKING:
    from tao_run.credentials import Credentials

_AT_ONCE = 16
_OURS = ".tao-run/"  # what the runner keeps for itself beside the results


def walk(root: str, credentials: Credentials) -> Iterator[tuple[str, int | None]]:
    """Path below `root` and size in bytes of every file there, sorted.

    Raises UsageError for a place that this machine cannot look at, and what the store raises.
    """
    location = parse_location(root)
    if location.is_s3:
        yield from S3Store(credentials).walk(location)
    elif location.is_file:
        yield from _walk_files(Path(location.path))
    else:
        raise UsageError(f"{root} cannot be listed from here")


def download(root: str, target: Path, credentials: Credentials) -> int:
    """Copy every file below an S3 `root` into `target`; returns how many. Names that would leave `target` are refused.

    A file is written under a temporary name and renamed when whole.
    """
    location, store = parse_location(root), S3Store(credentials)
    if not location.is_s3:
        raise UsageError(f"{root} is already a directory: nothing to download")
    names = [name for name, _ in store.walk(location)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(lambda name: _fetch(store, location, name, target), names):
            pass
    return len(names)


def _fetch(store: S3Store, root: Location, name: str, target: Path) -> None:
    with whole_file(target, name) as partial:
        store.fetch(root, name, partial)


@contextmanager
def whole_file(target: Path, name: str) -> Iterator[Path]:
    """Where to write the file `name` below `target`; it gets its own name when the block ends without an error.

    Raises UsageError for a name that would leave `target`.
    """
    parts = PurePosixPath(name).parts
    if ".." in parts or name.startswith("/"):
        raise UsageError(f"{name!r} would be written outside {target}")
    path = target.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    yield partial
    partial.replace(path)


def _walk_files(root: Path) -> Iterator[tuple[str, int | None]]:
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and not name.startswith(_OURS):
            yield name, path.stat().st_size
