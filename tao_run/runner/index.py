"""Remembers which object a local file is a copy of: size, ETag and modification time, beside the files.

One journal per bucket folder, below `.tao-run/index` of the root. Lines are only appended, the last one for
a name counts. A line that a crash or a shared file system has garbled is ignored: the file is fetched again.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import threading
from typing import Dict, List, Optional, Tuple

from .objects.base import ObjectInfo

_PENDING = 500  # lines that a kill -9 may lose; the files themselves are kept, and their MD5 is asked
_MTIME_SLACK = 1.0  # some shared file systems keep whole seconds, some tell the exact time only later
Entry = Tuple[int, str, float]


class Index:
    """The journals below one root. Safe for threads; other processes may append at the same time."""

    def __init__(self, root: str) -> None:
        self._folder = os.path.join(root, ".tao-run", "index")
        self._known: Dict[str, Dict[str, Entry]] = {}
        self._pending: Dict[str, List[str]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def record(self, bucket: str, key: str, path: str, etag: str) -> None:
        """The file at `path` is the object `key` with this ETag."""
        found = os.stat(path)
        entry = (found.st_size, etag, found.st_mtime)
        folder, name = posixpath.split(key)
        journal = self._journal(bucket, folder)
        with self._lock:
            self._known.setdefault(journal, {})[name] = entry
            self._pending.setdefault(journal, []).append(json.dumps([name, *entry]))
            self._count += 1
            full = self._count >= _PENDING
        if full:
            self.flush()

    def flush(self) -> None:
        """Write down what was recorded."""
        with self._lock:
            pending, self._pending, self._count = self._pending, {}, 0
        for journal, lines in pending.items():
            os.makedirs(self._folder, exist_ok=True)
            with open(journal, "ab", buffering=0) as file:
                file.write(("\n" + "\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))

    def fresh(self, bucket: str, info: ObjectInfo, path: str, adopt: bool = False) -> bool:
        """Whether the file at `path` is a whole copy of this very object.

        `adopt`: read a file that nobody recorded (put there by other means, or before a crash): its MD5 tells.
        """
        try:
            found = os.stat(path)
        except OSError:
            return False
        if found.st_size != info.size:
            return False
        entry = self._entry(bucket, info.key)
        if entry is not None:
            same_time = abs(entry[2] - found.st_mtime) <= _MTIME_SLACK
            return entry[:2] == (info.size, info.etag) and same_time
        return adopt and self._adopt(bucket, info, path)

    def _adopt(self, bucket: str, info: ObjectInfo, path: str) -> bool:
        if len(info.etag) != 32 or _md5(path) != info.etag:
            return False
        self.record(bucket, info.key, path, info.etag)
        return True

    def _entry(self, bucket: str, key: str) -> Optional[Entry]:
        folder, name = posixpath.split(key)
        return self._load(self._journal(bucket, folder)).get(name)

    def forget_loaded(self) -> None:
        """Read the journals again when next asked: another process may have written."""
        with self._lock:
            self._known = {}

    def _load(self, journal: str) -> Dict[str, Entry]:
        with self._lock:
            if journal not in self._known:
                self._known[journal] = _read(journal)
            return self._known[journal]

    def _journal(self, bucket: str, folder: str) -> str:
        name = hashlib.sha256(f"{bucket}/{folder}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return os.path.join(self._folder, f"{name}.jsonl")


def _read(journal: str) -> Dict[str, Entry]:
    found: Dict[str, Entry] = {}
    try:
        with open(journal, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                try:
                    name, size, etag, mtime = json.loads(line)
                except ValueError:
                    continue
                found[name] = (size, etag, mtime)
    except FileNotFoundError:
        pass
    return found


def _md5(path: str) -> str:
    digest = hashlib.new("md5")
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
