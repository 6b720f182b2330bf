"""Moves files between an object store and disk: parallel, in parts, retried, size-checked, renamed when whole."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from functools import partial
from typing import Any, Callable, Iterator, List, NamedTuple, Sequence, Tuple

from . import log
from .errors import RunnerError, Transient
from .objects.base import MIB, PART, WRITE_PART, ObjectStore
from .parallel import Budget, retrying, run_all
from .stop import Stop

WORKERS = 32
_MEMORY = 96 * MIB
_IN_ONE_PIECE = 4 * MIB
_STREAM_MEMORY = 12 * MIB  # so eight at a time
_SEND_MEMORY = _MEMORY  # what a client holds while it sends one large file in parts: one at a time


class Fetch(NamedTuple):
    """One object to download to `path`."""

    bucket: str
    key: str
    path: str
    size: int
    etag: str


class Send(NamedTuple):
    """One file to upload. `size` and `mtime` (ns) are what it had when it was found."""

    path: str
    bucket: str
    key: str
    size: int
    mtime: int


class Transfers:
    """Downloads and uploads through one store.

    `fetched` and `sent` count what really moved: files and bytes.
    """

    def __init__(self, store: ObjectStore, stop: Stop, workers: int = WORKERS) -> None:
        self.store, self.stop, self.workers = store, stop, workers
        self.budget = Budget(_MEMORY)

    # -- down ------------------------------------------------------------------------------------------

    def fetch(self, items: Sequence[Fetch], title: str, scratch: str, done: Callable[[Fetch, str], None]) -> None:
        """Download all items. `scratch` is a directory on the file system of their paths.

        `done` is told each finished item and its ETag, from many threads. A path comes into being only by
        the rename of a complete file. Raises StoreError, RunnerError (disk), Stopped.
        """
        progress = log.Progress(title, len(items), sum(item.size for item in items))
        for folder in sorted({os.path.dirname(item.path) for item in items}):
            _make_folder(folder)
        tasks = self._fetch_tasks(items, scratch, progress, done)
        run_all(tasks, min(self.workers, max(8, len(items))), self.stop, progress.tick)
        progress.end()

    def _fetch_tasks(
        self, items: Sequence[Fetch], scratch: str, progress: log.Progress, done: Callable[[Fetch, str], None]
    ) -> Iterator[Callable[[], None]]:
        for number, item in enumerate(items):
            temporary = os.path.join(scratch, str(number))
            if item.size <= _IN_ONE_PIECE:
                yield partial(self._fetch_small, item, temporary, progress, done)
            else:
                yield from _Streams(self, item, temporary, progress, done).tasks()

    def _fetch_small(
        self, item: Fetch, temporary: str, progress: log.Progress, done: Callable[[Fetch, str], None]
    ) -> None:
        with self.budget.hold(item.size):
            data, etag = retrying(partial(self._read, item), self.stop) if item.size else (b"", item.etag)
            with _Disk(item.path):
                with open(temporary, "wb", buffering=0) as file:
                    _write_all(file.fileno(), data, 0)
                _move(temporary, item.path)
        done(item, etag or item.etag)
        progress.add(1, item.size)

    def _read(self, item: Fetch) -> Tuple[Any, str]:
        data, etag = self.store.read(item.bucket, item.key, item.size)
        _require_length(item, len(data), item.size)
        return data, etag

    # -- up --------------------------------------------------------------------------------------------

    def send(self, items: Sequence[Send], title: str, done: Callable[[Send], None]) -> None:
        """Upload all items; one that has gone is left out. Without a title, no lines. Raises StoreError, Stopped."""
        progress = log.Progress(title, len(items), sum(item.size for item in items))
        tasks = (partial(self._send, item, progress, done) for item in items)
        run_all(tasks, min(self.workers, max(1, len(items))), self.stop, progress.tick)
        progress.end()

    def _send(self, item: Send, progress: log.Progress, done: Callable[[Send], None]) -> None:
        try:
            if item.size <= WRITE_PART:
                with self.budget.hold(item.size):
                    with open(item.path, "rb", buffering=0) as file:
                        data = _read_all(file.fileno(), item.size)
                    retrying(partial(self.store.write, item.bucket, item.key, data), self.stop)
            else:
                with self.budget.hold(_SEND_MEMORY):
                    send = partial(self.store.write_file, item.bucket, item.key, item.path, item.size)
                    retrying(send, self.stop)
        except FileNotFoundError:
            return
        done(item)
        progress.add(1, item.size)


class _Streams:
    """One object that comes as one or more streams, each written where it belongs as it comes."""

    def __init__(
        self,
        transfers: Transfers,
        item: Fetch,
        temporary: str,
        progress: log.Progress,
        done: Callable[[Fetch, str], None],
    ) -> None:
        self.transfers, self.item, self.temporary = transfers, item, temporary
        self.progress, self.done = progress, done
        self.left = -(-item.size // PART)
        self.lock = threading.Lock()
        self.file = -1

    def tasks(self) -> Iterator[Callable[[], None]]:
        """One task per stream."""
        with _Disk(self.item.path):
            self.file = os.open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        for start in range(0, self.item.size, PART):
            yield partial(self._stream, start, min(self.item.size, start + PART))

    def _stream(self, start: int, end: int) -> None:
        position = start

        def attempt() -> None:
            nonlocal position  # a stream that broke goes on where it broke
            item = self.item
            for chunk in self.transfers.store.stream(item.bucket, item.key, position, end - position, item.etag):
                self.transfers.stop.check()
                with _Disk(item.path):
                    _write_all(self.file, chunk, position)
                position += len(chunk)
                self.progress.add(0, len(chunk))
            _require_length(item, position - start, end - start)

        with self.transfers.budget.hold(_STREAM_MEMORY):
            retrying(attempt, self.transfers.stop)
        self._finish_one()

    def _finish_one(self) -> None:
        with self.lock:
            self.left -= 1
            last = self.left == 0
        if last:
            with _Disk(self.item.path):
                os.close(self.file)
                _move(self.temporary, self.item.path)
            self.done(self.item, self.item.etag)
            self.progress.add(1, 0)


def _require_length(item: Fetch, came: int, expected: int) -> None:
    if came != expected:
        raise Transient(f"s3://{item.bucket}/{item.key}: {came} bytes came where {expected} were expected")


class _Disk:
    """Turns an OSError of this block into one line that names the file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise RunnerError(f"cannot write {self.path}: {reason}", "check space and rights") from None


def _make_folder(folder: str) -> None:
    with _Disk(folder):
        os.makedirs(folder, exist_ok=True)


def _move(temporary: str, path: str) -> None:
    """Give a finished file its name, also where a part of the root is another file system."""
    try:
        os.rename(temporary, path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = f"{path}.{os.getpid()}.tao-run"
        shutil.copyfile(temporary, beside)
        os.rename(beside, path)
        os.unlink(temporary)


def _write_all(file: int, data: Any, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _read_all(file: int, size: int) -> bytes:
    """What the file holds now: `size` is only a hint, it may have grown."""
    pieces: List[bytes] = []
    while True:
        piece = os.read(file, max(size, MIB))
        if not piece:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.append(piece)
