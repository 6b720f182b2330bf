"""Logs of a local job: files read as a stream, whatever their size, followed until the job has ended."""

from __future__ import annotations

import bisect
import contextlib
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from tao_run.clock import Clock
from tao_run.jobs.model import LogLine, LogQuery
from tao_run.platforms.local.jobdir import JobDir
from tao_run.platforms.streams import LineSplitter, last_lines, merge_by_time

_CHUNK = 256 * 1024
_POLL_SECONDS = 0.2
_PROGRESS_SECONDS = 1.0


class TimeIndex:
    """When each part of a log was seen, from the supervisor's samples."""

    def __init__(self, path: Path) -> None:
        self._offsets = array("q")  # plain numbers: a job of weeks has a million samples
        self._times = array("d")
        for line in _lines(path):
            seconds, _, offset = line.partition(" ")
            if offset.endswith("\n"):  # else it is being written
                self._offsets.append(int(offset))
                self._times.append(max(float(seconds), self._times[-1] if self._times else 0.0))

    def at(self, offset: int) -> datetime | None:
        """When the byte before `offset` was first seen; the last sample for what is newer."""
        if not self._times:
            return None
        seconds = self._times[min(bisect.bisect_left(self._offsets, offset), len(self._times) - 1)]
        return datetime.fromtimestamp(seconds, timezone.utc)

    def samples(self, start: int, end: int) -> list[int]:
        """Where the parts between `start` and `end` end, each of them seen at one time."""
        first, last = bisect.bisect_right(self._offsets, start), bisect.bisect_left(self._offsets, end)
        return [*self._offsets[first:last], end]

    def offset_since(self, since: datetime) -> int:
        """The first byte that was written at or after `since`."""
        before = bisect.bisect_left(self._times, since.timestamp())
        return 0 if before == 0 else self._offsets[before - 1]


def _lines(path: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
        yield from file


def read(directory: JobDir, ranks: list[int], query: LogQuery, ends: dict[int, int] | None = None) -> Iterator[LogLine]:
    """What is in the logs now (or up to `ends`), ranks merged by time, the last `tail` in all."""
    streams = [_read_rank(directory, rank, query, (ends or {}).get(rank)) for rank in ranks]
    merged = streams[0] if len(streams) == 1 else merge_by_time(streams)
    return last_lines(merged, query.tail)


def _read_rank(directory: JobDir, rank: int, query: LogQuery, end: int | None) -> Iterator[LogLine]:
    path, index = directory.log(rank), TimeIndex(directory.index(rank))
    end = _size(path) if end is None else end
    start = index.offset_since(query.since) if query.since else 0
    if query.tail is not None:
        start = max(start, _tail_start(path, query.tail, end))
    splitter, position = LineSplitter(), start
    for chunk in _chunks(path, start, end):
        first = position
        for stop in index.samples(position, position + len(chunk)):  # every line gets the time its part was seen
            seen = index.at(stop)
            for text in splitter.feed(chunk[position - first : stop - first]):
                yield LogLine(text, seen, rank)
            position = stop
    for text in splitter.finish():
        yield LogLine(text, index.at(position), rank)


def _chunks(path: Path, start: int, end: int) -> Iterator[bytes]:
    if end <= start:
        return
    with path.open("rb") as file:
        file.seek(start)
        while start < end and (chunk := file.read(min(_CHUNK, end - start))):
            start += len(chunk)
            yield chunk


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _tail_start(path: Path, lines: int, end: int) -> int:
    """Where the last `lines` lines before `end` begin, found from the end."""
    if end == 0 or lines <= 0:
        return end
    with path.open("rb") as file:
        file.seek(end - 1)
        missing = lines + (file.read(1) == b"\n")
        position = end
        while position > 0:
            size = min(_CHUNK, position)
            position -= size
            file.seek(position)
            block = file.read(size)
            if block.count(b"\n") >= missing:
                return position + _nth_newline_from_end(block, missing) + 1
            missing -= block.count(b"\n")
    return 0


def _nth_newline_from_end(block: bytes, count: int) -> int:
    place = len(block)
    for _ in range(count):
        place = block.rfind(b"\n", 0, place)
    return place


class Follower:
    """Reads one growing log; knows where it is, so nothing is lost or repeated, and notices truncation."""

    def __init__(self, path: Path, rank: int, clock: Clock, start: int) -> None:
        self._path, self._rank, self._clock = path, rank, clock
        self._position = start
        self._splitter = LineSplitter()
        self._said_at = clock.monotonic()

    def more(self) -> Iterator[LogLine]:
        """The lines that have come since the last call."""
        yield from self._truncation()
        for chunk in _chunks(self._path, self._position, _size(self._path)):
            self._position += len(chunk)
            for text in self._splitter.feed(chunk):
                yield self._line(text)
        if self._clock.monotonic() - self._said_at > _PROGRESS_SECONDS:  # a progress bar may draw for hours
            drawn = self._splitter.progress()
            if drawn is not None:
                yield self._line(drawn)

    def rest(self) -> Iterator[LogLine]:
        """What is left when nothing more will come."""
        yield from self.more()
        for text in self._splitter.finish():
            yield self._line(text)

    def _truncation(self) -> Iterator[LogLine]:
        if _size(self._path) < self._position:
            text = "the log was truncated; what it held before may be missing"
            yield LogLine(text, self._clock.now(), self._rank, kind="gap")
            self._position = 0

    def _line(self, text: str) -> LogLine:
        self._said_at = self._clock.monotonic()
        return LogLine(text, self._clock.now(), self._rank)


def follow(
    directory: JobDir, ranks: list[int], query: LogQuery, clock: Clock, ended: Callable[[], bool]
) -> Iterator[LogLine]:
    """The lines so far, then new ones as they come, until `ended()` and the logs are drained."""
    ends = {rank: _line_end(directory.log(rank)) for rank in ranks}
    yield from read(directory, ranks, query, ends)
    followers = [Follower(directory.log(rank), rank, clock, ends[rank]) for rank in ranks]
    while not ended():
        for follower in followers:
            yield from follower.more()
        clock.sleep(_POLL_SECONDS)
    for follower in followers:
        yield from follower.rest()


def _line_end(path: Path) -> int:
    """The end of the last whole line: where reading what was written turns into following."""
    size = _size(path)
    return _tail_start(path, 1, size) if size and not _ends_with_newline(path, size) else size


def _ends_with_newline(path: Path, size: int) -> bool:
    with path.open("rb") as file:
        file.seek(size - 1)
        return file.read(1) == b"\n"
