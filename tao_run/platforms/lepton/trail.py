"""One replica's log as it is followed: what was shown of it, and whether a live stream can go on from there.

A live stream carries no times and begins, at every connection, with a replay of the replica's last lines. A
replay is compared line by line with what was shown; if it differs, or would be too long to be whole, the stream
is left for good and the log service is read instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tao_run.jobs.model import LogLine
from tao_run.platforms.lepton.logrange import Cursor, LogRange, Record
from tao_run.platforms.lepton.logs import as_line

#: a live stream replays the last 10,000 lines; up to here a replay is surely whole
MOST_REPLAYED = 9_000
_MOST_BREAKS = 5
_DIFFERS = LogLine("the live stream and the log service differ here: lines may be shown twice", kind="gap")


@dataclass
class Trail:
    """A followed replica; an empty `replica` is all of them, read from the log service only."""

    replica: str
    log: LogRange
    cursor: Cursor
    streams: bool = True
    shown: int = 0
    live: bool = False
    connection: int = 0
    heard_at: float = 0.0
    _hashes: list[int] = field(default_factory=list)
    _replayed: int = 0
    _breaks: int = 0

    @property
    def can_stream(self) -> bool:
        """Whether a new connection's replay would be whole and can be checked."""
        return self.streams and not self.live and self.shown < MOST_REPLAYED and self._breaks < _MOST_BREAKS

    def connected(self, now: float) -> int:
        """A connection begins; returns its number."""
        self.live, self._replayed, self.heard_at = True, 0, now
        self.connection += 1
        self._breaks += 1  # taken back by the first new line
        return self.connection

    def disconnected(self) -> None:
        """The connection is over, or no longer listened to."""
        self.live = False
        self.connection += 1

    def last_lines(self, start: int, end: int, count: int) -> list[LogLine]:
        """Begin with the last `count` lines instead of all."""
        records = self.log.page(start, end, "backward", MOST_REPLAYED)[::-1]
        self.streams = self.streams and len(records) < MOST_REPLAYED
        self.cursor.resume_after(records)
        for record in records:
            self._show(record.text)
        if count > len(records) >= MOST_REPLAYED:
            records = self.log.tail(start, records[-1].at + 1, count)
        return [record.line() for record in records[max(0, len(records) - count) :]]

    def read(self, end: int) -> Iterator[LogLine]:
        """What the log service has before `end` beyond what was shown."""
        for item in self.cursor.read(end):
            if isinstance(item, Record):
                if self.cursor.count <= self.shown:
                    yield from self._check(item)
                    continue
                self._show(item.text)
            yield as_line(item)

    def is_new(self, text: str, now: float) -> bool:
        """Whether a streamed line lies beyond what was shown; counts it then."""
        self.heard_at = now
        if self._replayed == self.shown:
            self._replayed += 1
            self._breaks = 0
            self._show(text)
            return True
        if self._replayed < len(self._hashes) and self._hashes[self._replayed] == hash(text):
            self._replayed += 1
        else:
            self.streams = False
            self.disconnected()
        return False

    def _check(self, record: Record) -> Iterator[LogLine]:
        """A record that was shown from the stream: is it the same line?"""
        index = self.cursor.count - 1
        if index < len(self._hashes) and self._hashes[index] != hash(record.text):
            self.streams = False
            self.shown = index
            del self._hashes[index:]
            self._show(record.text)
            yield from (_DIFFERS, record.line())

    def _show(self, text: str) -> None:
        self.shown += 1
        if len(self._hashes) < MOST_REPLAYED:
            self._hashes.append(hash(text))
