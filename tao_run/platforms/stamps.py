"""Time stamps that container engines put before what they log: read, written, and taken out of long lines."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache

NANOSECONDS = 1_000_000_000
#: bytes; engines cut lines into pieces of this size, each with a stamp of its own (moby, daemon/logger/copier.go)
PIECE = 16 * 1024
LONGEST_STAMP = 36
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")


def parse_stamp(data: bytes) -> tuple[int, int] | None:
    """Time in nanoseconds and length of the RFC 3339 stamp that `data` begins with, or None."""
    found = _STAMP.match(data)
    if found is None:
        return None
    try:
        seconds = _seconds(found[1], found[3])
    except ValueError:  # the 99th of a month: a job may write anything
        return None
    return seconds * NANOSECONDS + int((found[2] or b"0").ljust(9, b"0")), found.end()


@lru_cache(maxsize=64)
def _seconds(whole: bytes, zone: bytes) -> int:
    """Seconds since 1970. Many lines share one: it is worth remembering."""
    moment = datetime.fromisoformat(whole.decode() + ("+00:00" if zone == b"Z" else zone.decode()))
    return int(moment.timestamp())


def to_datetime(at: int) -> datetime:
    """A moment in nanoseconds since 1970 as a UTC datetime (microseconds)."""
    seconds, rest = divmod(at, NANOSECONDS)
    return datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=rest // 1000)


def from_datetime(moment: datetime) -> int:
    """A datetime in nanoseconds since 1970."""
    return int(moment.timestamp()) * NANOSECONDS + moment.microsecond * 1000


def join_pieces(line: bytes) -> bytes:
    """A long line without the stamps before its second and later pieces."""
    pieces, start = [], 0
    while (stamp := _STAMP.match(line, start + PIECE)) is not None:
        pieces.append(line[start : start + PIECE])
        start = stamp.end()
    return b"".join([*pieces, line[start:]]) if pieces else line
