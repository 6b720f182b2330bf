"""One container's log as a kubelet keeps it: stamped lines, followers, rotation."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class PodLog:
    """Lines with their times (ns since the epoch), shared by the process that writes and all readers."""

    lines: list[tuple[int, bytes]] = field(default_factory=list)
    closed: bool = False
    dropped: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def write(self, text: bytes, at: int | None = None) -> None:
        with self.changed:
            self.lines.append((at or time.time_ns(), text))
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def rotate(self, keep: int = 0) -> None:
        """Forget all but the newest `keep` lines, as a rotated log file does."""
        with self.changed:
            gone = len(self.lines) - self.dropped - keep
            self.dropped += max(0, gone)
            self.changed.notify_all()

    def read(self, since: float, tail: int | None, follow: bool) -> Iterator[tuple[int, bytes] | None]:
        """Stamped lines; None now and then while a follower waits, so that the caller can look at its faults."""
        with self.changed:
            index = self.dropped
            while index < len(self.lines) and self.lines[index][0] < since * 1e9:
                index += 1
            if tail is not None:
                index = max(index, len(self.lines) - tail)
        while True:
            with self.changed:
                ready, closed = self.lines[index:], self.closed
                if not ready and not closed and follow:
                    self.changed.wait(0.05)
            yield from ready
            index += len(ready)
            if not follow or (not ready and closed):
                return
            if not ready:
                yield None


def stamp(at: int) -> bytes:
    """RFC 3339 with nanoseconds, trailing zeros removed as Go prints it."""
    whole, rest = divmod(at, 10**9)
    seconds = datetime.datetime.fromtimestamp(whole, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f"{rest:09d}".rstrip("0")
    return f"{seconds}{'.' if fraction else ''}{fraction}Z".encode()
