"""Brings objects to a root directory, each to `<root>/<bucket>/<key>`: once for all ranks and jobs that share it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Callable, ContextManager, List, Optional, Sequence, Set

from . import lock, log
from .errors import Absent, InputError
from .index import Index
from .objects.base import ObjectInfo
from .parallel import retrying, run_all
from .stop import Stop
from .transfer import Fetch, Transfers
from .uris import Uri, confined

_TEMPORARY_DAYS = 1.0
_WILDCARDS = "*?["
_LOOKUPS = 16
_READERS = 4
_ASK_DELAYS = (1.0, 3.0)  # a container's network may come up after the container


@dataclass
class Moved:
    """What staging one input took: all files and bytes of it, and those that really had to move."""

    files: int = 0
    bytes: int = 0
    fetched_files: int = 0
    fetched_bytes: int = 0
    paths: List[str] = field(default_factory=list)


class Stage:
    """One root directory. `transfers` is called when the store is first needed.

    `refresh_since` (seconds since the epoch): files fetched before are fetched again, whatever is recorded.
    """

    def __init__(
        self, root: str, transfers: Callable[[], Transfers], stop: Stop, refresh_since: Optional[float] = None
    ) -> None:
        self.root = root
        self.state = os.path.join(root, ".tao-run")
        self._transfers = transfers
        self._stop = stop
        self._refresh_since = refresh_since
        self.index = Index(root)
        self._scratch: Optional[str] = None

    # -- what is there -----------------------------------------------------------------------------------

    def local(self, bucket: str, key: str) -> str:
        """Where an object lies. Raises InputError if its name would lead out of the root."""
        return os.path.join(self.root, confined(bucket, key) if key else confined(bucket))

    def find(self, uri: Uri) -> List[ObjectInfo]:
        """The object, or everything below the prefix: what is there decides. Raises Absent, StoreError."""
        return retrying(partial(self._find, uri), self._stop, _ASK_DELAYS)

    def _find(self, uri: Uri) -> List[ObjectInfo]:
        store = self._transfers().store
        key = uri.key.rstrip("/")
        if not uri.is_folder:
            info = store.head(uri.bucket, key)
            if info is not None and (info.size or next(iter(store.list(uri.bucket, key)), None) is None):
                return [info]
        infos = list(store.list(uri.bucket, key))
        if not infos:
            raise Absent(f"{uri.text} is not there", "check the path; a prefix counts only up to a slash")
        return without_markers(infos)

    def find_glob(self, uri: Uri) -> List[ObjectInfo]:
        """All objects whose key matches a pattern. Raises Absent, StoreError."""
        return retrying(partial(self._find_glob, uri), self._stop, _ASK_DELAYS)

    def _find_glob(self, uri: Uri) -> List[ObjectInfo]:
        first = min(uri.key.index(mark) for mark in _WILDCARDS if mark in uri.key)
        folder = uri.key[:first].rpartition("/")[0]
        infos = [info for info in self._transfers().store.list(uri.bucket, folder) if fnmatchcase(info.key, uri.key)]
        if not infos:
            raise Absent(f"nothing matches {uri.text}", "check the pattern")
        return infos

    def find_keys(self, bucket: str, wanted: Set[str]) -> List[ObjectInfo]:
        """The named objects, or what is below them. Raises Absent if one is not there, StoreError."""
        found: List[ObjectInfo] = []
        absent: List[str] = []

        def look(key: str) -> None:
            try:
                found.extend(self.find(Uri(f"s3://{bucket}/{key}", "s3", bucket, key)))
            except Absent:
                absent.append(key)

        tasks = (partial(look, key) for key in sorted(wanted))
        run_all(tasks, _LOOKUPS, self._stop, lambda: None)
        if absent:
            some = ", ".join(sorted(absent)[:3])
            raise Absent(f"{len(absent)} of {len(wanted)} files that the annotation names are not there ({some}, ...)")
        return found

    def unverified(self, uri: Uri) -> Optional[str]:
        """The local copy of an input, for a job that has no keys to ask the store with; None if there is none."""
        path = self.local(uri.bucket, uri.key.rstrip("/"))
        if os.path.isfile(path) or (os.path.isdir(path) and os.listdir(path)):
            return path
        return None

    def adopt(self, bucket: str, info: ObjectInfo, path: str) -> None:
        """Know a result that lies where a later job looks for it as an input: on a mount, under its own URI."""
        if path == self.local(bucket, info.key):
            self.index.record(bucket, info.key, path, info.etag)

    # -- bring it ------------------------------------------------------------------------------------------

    def bring(self, uri: Uri, infos: Sequence[ObjectInfo]) -> Moved:
        """Have all `infos` as local files. Raises StoreError, RunnerError, Stopped."""
        moved = Moved(len(infos), sum(info.size for info in infos))
        items = [Fetch(uri.bucket, info.key, self.local(uri.bucket, info.key), info.size, info.etag) for info in infos]
        moved.paths = [item.path for item in items]
        if self._missing(items):
            with lock.hold(self._lock_path(uri), self._stop, lambda: self._say_waiting(uri)):
                self.index.forget_loaded()
                missing = self._adopt(self._missing(items))
                moved.fetched_files, moved.fetched_bytes = len(missing), sum(item.size for item in missing)
                self._fetch(uri, missing)
        if not moved.fetched_files:
            log.say(f"{uri.text}: {log.plural(moved.files, 'file')}, {log.size_text(moved.bytes)}, already here")
        return moved

    def _missing(self, items: Sequence[Fetch]) -> List[Fetch]:
        return [item for item in items if not self._fresh(item)]

    def _fresh(self, item: Fetch, adopt: bool = False) -> bool:
        if self._refresh_since is not None:
            try:
                if os.stat(item.path).st_mtime < self._refresh_since:
                    return False
            except OSError:
                return False
        return self.index.fresh(item.bucket, ObjectInfo(item.key, item.size, item.etag), item.path, adopt)

    def _adopt(self, items: Sequence[Fetch]) -> List[Fetch]:
        """Take over files that are there unrecorded and are the same; returns the others. Reads them."""
        known: Set[str] = set()

        def look(item: Fetch) -> None:
            if self._fresh(item, adopt=True):
                known.add(item.path)

        there = [item for item in items if os.path.exists(item.path)]
        run_all((partial(look, item) for item in there), _READERS, self._stop, lambda: None)
        self.index.flush()
        return [item for item in items if item.path not in known]

    def _fetch(self, uri: Uri, items: Sequence[Fetch]) -> None:
        if not items:
            return
        try:
            self._transfers().fetch(
                items,
                f"fetched {uri.text}",
                self.scratch(),
                lambda item, etag: self.index.record(item.bucket, item.key, item.path, etag),
            )
        finally:
            self.index.flush()

    def _say_waiting(self, uri: Uri) -> None:
        log.say(f"{uri.text}: another rank or job is fetching it, waiting")

    def _lock_path(self, uri: Uri) -> str:
        name = hashlib.sha256(uri.text.rstrip("/").encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return os.path.join(self.state, "locks", f"{name}.lock")

    def locked(self, name: str) -> ContextManager[None]:
        """Hold a lock of this root, for what is fetched by other means."""
        return lock.hold(self._lock_path(Uri(name, "", "", "")), self._stop, lambda: log.say(f"{name}: waiting"))

    # -- temporary files -------------------------------------------------------------------------------------

    def scratch(self) -> str:
        """This process's own directory for what is not finished, on the root's file system."""
        if self._scratch is None:
            me = lock.holder_identity()
            parent = os.path.join(self.state, "tmp")
            _clean(parent)
            self._scratch = os.path.join(parent, me["token"])
            os.makedirs(self._scratch)
            with open(os.path.join(self._scratch, "holder.json"), "w", encoding="utf-8") as file:
                json.dump(me, file)
        return self._scratch

    def close(self) -> None:
        """Remove what is temporary."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def without_markers(infos: Sequence[ObjectInfo]) -> List[ObjectInfo]:
    """The objects without the empty ones that only mark folders.

    Raises InputError if a name is both a file with content and a folder: no file system can hold that.
    """
    folders: Set[str] = set()
    for info in infos:
        folder = info.key.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    clash = next((info.key for info in infos if info.size and info.key in folders), None)
    if clash is not None:
        raise InputError(f"{clash!r} is both an object and a folder of objects", "rename one of them in the bucket")
    return [info for info in infos if info.key not in folders]


def _clean(parent: str) -> None:
    """Remove what processes that are gone have left."""
    oldest = time.time() - _TEMPORARY_DAYS * 86400
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        path = os.path.join(parent, name)
        try:
            with open(os.path.join(path, "holder.json"), encoding="utf-8") as file:
                dead = lock.is_dead(json.load(file))
            if dead or os.stat(path).st_mtime < oldest:
                shutil.rmtree(path, ignore_errors=True)
        except (OSError, ValueError):
            continue
