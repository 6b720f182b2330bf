"""Delivers trees: uploads or copies what is new or has changed since the last time, as often as asked."""

from __future__ import annotations

import os
import shutil
import threading
import time
from functools import partial
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from . import log
from .errors import OutputError, RunnerError, StoreError
from .objects.base import ObjectInfo
from .parallel import run_all
from .stop import Stop
from .transfer import Send, Transfers
from .trees import Found, Tree, walk
from .uris import bucket_path, join, scheme_of

_STILL_GROWING = 64 << 20  # a file of this size that has just changed waits for the next pass
_QUIET_SECONDS = 5.0
_COPIES = 4
State = Tuple[int, int]


class Deliverer:
    """Keeps the targets of `trees` up to date. `transfers` is called when the store is first needed.

    `trees` is asked at every pass: whether a rank shares its directory shows only once rank 0 has begun.
    `delivered` is told bucket, object and local path of each file that was seen in the store afterwards.
    `files` and `bytes` count what was delivered.
    """

    def __init__(
        self,
        trees: Callable[[], List[Tree]],
        excludes: Sequence[str],
        transfers: Callable[[], Transfers],
        delivered: Callable[[str, ObjectInfo, str], None],
    ) -> None:
        self._trees, self._excludes, self._transfers = trees, excludes, transfers
        self._delivered = delivered
        self._done: Dict[str, State] = {}
        self._lock = threading.Lock()
        self.files = self.bytes = 0
        self.failures = 0

    def deliver(self, final: bool, quiet: bool = False) -> None:
        """One pass. The last one takes every file, also those that just changed. Raises OutputError.

        `quiet`: for the job's own small files, which are worth no line of the log.
        """
        with self._lock:
            for tree in self._trees():
                changed = [found for found in walk(tree, self._excludes) if self._is_due(found, final)]
                if changed:
                    self._deliver_tree(tree, changed, quiet)

    def _is_due(self, found: Found, final: bool) -> bool:
        if self._done.get(found.path) == (found.size, found.mtime):
            return False
        young = time.time() - found.mtime / 1e9 < _QUIET_SECONDS
        return final or not (young and found.size >= _STILL_GROWING)

    def _deliver_tree(self, tree: Tree, changed: List[Found], quiet: bool) -> None:
        if scheme_of(tree.target) == "s3":
            self._upload(tree, changed, "" if quiet else f"uploaded to {tree.target}")
        else:
            run_all((partial(self._copy, tree, found) for found in changed), _COPIES, Stop(), lambda: None)

    def _upload(self, tree: Tree, changed: List[Found], title: str) -> None:
        bucket, prefix = bucket_path(tree.target)
        alone = os.path.isfile(tree.root)
        items = [
            Send(found.path, bucket, prefix if alone else join(prefix, found.relative), found.size, found.mtime)
            for found in changed
        ]
        try:
            # a signal does not cut an upload short: what the job has made is worth the rest of the time
            Transfers(self._transfers().store, Stop()).send(items, title, self._sent)
        except StoreError as error:
            raise OutputError(f"results could not be uploaded to {tree.target}: {error.message}", error.hint) from None

    def _sent(self, item: Send) -> None:
        self._count(item.path, item.size, item.mtime)

    def _count(self, path: str, size: int, mtime: int) -> None:
        self._done[path] = (size, mtime)
        self.files += 1
        self.bytes += size

    def _copy(self, tree: Tree, found: Found) -> None:
        target = tree.target if os.path.isfile(tree.root) else os.path.join(tree.target, found.relative)
        temporary = f"{target}.{os.getpid()}.tao-run"
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(found.path, temporary)
            os.replace(temporary, target)
        except FileNotFoundError:
            return
        except OSError as error:
            raise OutputError(
                f"cannot copy {found.path} to {target}: {error.strerror}", "check space and rights"
            ) from None
        self._count(found.path, found.size, found.mtime)

    def verify(self) -> None:
        """Compare sizes in the store with what was sent. Raises OutputError."""
        for tree in self._trees():
            if scheme_of(tree.target) == "s3":
                self._verify(tree)

    def _verify(self, tree: Tree) -> None:
        bucket, prefix = bucket_path(tree.target)
        if os.path.isfile(tree.root):
            return
        try:
            there = {info.key: info for info in self._transfers().store.list(bucket, prefix)}
        except StoreError as error:
            log.warn(f"the upload to {tree.target} could not be verified: {error.message}")
            return
        wrong: Set[str] = set()
        for found in walk(tree, self._excludes):
            if self._done.get(found.path) != (found.size, found.mtime):
                continue
            info = there.get(join(prefix, found.relative))
            if info is None or info.size != found.size:
                wrong.add(found.relative)
            else:
                self._delivered(bucket, info, found.path)
        if wrong:
            some = ", ".join(sorted(wrong)[:3])
            raise OutputError(
                f"{tree.target} does not hold what was sent ({len(wrong)} files: {some})", "check the store"
            )


class Periodic:
    """Delivers every `interval` seconds while the command runs. A failure is said, and the next pass tries again."""

    def __init__(self, deliverer: Deliverer, interval: Optional[float]) -> None:
        self._deliverer, self._interval = deliverer, interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> "Periodic":
        if self._interval:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()

    def _loop(self) -> None:
        while not self._ended.wait(self._interval):
            try:
                self._deliverer.deliver(final=False)
            except (RunnerError, OSError) as error:
                log.warn(f"{error}; it is tried again")
