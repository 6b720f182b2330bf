"""Log streams: bytes to lines whatever the chunks, lines of many replicas to one order, and the last N of all."""

from __future__ import annotations

import codecs
import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

from tao_run.jobs.model import LogLine

LONGEST_LINE = 32 * 1024 * 1024  # characters; a longer one is cut, so that memory stays flat
_LONG_AGO = datetime.fromtimestamp(0, timezone.utc)


class LineSplitter:
    """Turns chunks of bytes into lines: a character split over two chunks is whole, bad UTF-8 is replaced.

    Only a newline ends a line; `progress()` hands out what a progress bar has drawn with carriage returns.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._parts: list[str] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` completes, without their newlines (`\\r\\n` counts as one)."""
        text = self._decoder.decode(chunk)
        *complete, rest = text.split("\n")
        lines = []
        for piece in complete:
            lines.append(self._take(piece).removesuffix("\r"))
        if rest:
            self._parts.append(rest)
            self._length += len(rest)
        if self._length > LONGEST_LINE:
            lines.append(self._take(""))
        return lines

    def progress(self) -> str | None:
        """What is pending up to its last carriage return, if there is one; the rest stays pending."""
        pending = "".join(self._parts)
        cut = pending.rstrip("\r").rfind("\r")
        if cut < 0:
            return None
        self._parts, self._length = [pending[cut + 1 :]], len(pending) - cut - 1
        return pending[:cut]

    def finish(self) -> list[str]:
        """The last line, if it has no newline."""
        rest = self._take(self._decoder.decode(b"", final=True))
        return [rest] if rest else []

    def _take(self, piece: str) -> str:
        line = "".join([*self._parts, piece])
        self._parts, self._length = [], 0
        return line


def merge_by_time(streams: Iterable[Iterator[LogLine]]) -> Iterator[LogLine]:
    """One stream in time order out of several, each in order by itself. A line without a time keeps its place."""

    def timed(stream: Iterator[LogLine], number: int) -> Iterator[tuple[datetime, int, int, LogLine]]:
        last = _LONG_AGO
        for position, line in enumerate(stream):
            last = max(last, line.time or last)
            yield last, number, position, line

    for _, _, _, line in heapq.merge(*(timed(stream, number) for number, stream in enumerate(streams))):
        yield line


def last_lines(lines: Iterable[LogLine], count: int | None) -> Iterator[LogLine]:
    """The last `count` lines in all, or all of them; holds no more than `count` in memory."""
    if count is None:
        yield from lines
    elif count > 0:
        yield from deque(lines, maxlen=count)
