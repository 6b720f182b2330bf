"""Container logs as bytes: frames or a raw terminal, time stamps, pieces of long lines, and no line twice."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tao_run.platforms.stamps import LONGEST_STAMP, NANOSECONDS, PIECE, parse_stamp

# Engine API, "Stream format": [stream type, 0, 0, 0, size as 4 bytes big endian] payload
_HEADER = 8
_Key = tuple[int, int, int]
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class Piece:
    """What the daemon stored as one entry: a line, or 16 KiB of a longer one. `at` is in nanoseconds since 1970."""

    stream: int
    at: int
    data: bytes


@dataclass(frozen=True)
class Line:
    """A whole line, without its end. `at` is in nanoseconds since 1970."""

    at: int
    text: str


def frames(chunks: Iterable[bytes]) -> Iterator[Piece]:
    """Pieces of a multiplexed stream (container without a terminal), however it was cut into chunks."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        start = 0
        while len(buffer) - start >= _HEADER:
            end = start + _HEADER + int.from_bytes(buffer[start + 4 : start + 8], "big")
            if len(buffer) < end:
                break
            yield _piece(buffer[start], bytes(buffer[start + _HEADER : end]))
            start = end
        del buffer[:start]


def _piece(stream: int, payload: bytes) -> Piece:
    stamp = parse_stamp(payload[:LONGEST_STAMP])
    return Piece(stream, stamp[0], payload[stamp[1] :]) if stamp else Piece(stream, 0, payload)


def terminal(chunks: Iterable[bytes]) -> Iterator[Piece]:
    """Pieces of the raw stream of a container with a terminal: a stamp before each line and each 16 KiB of one."""
    buffer = b""
    for chunk in chunks:
        buffer += chunk
        while True:
            cut = _cut(buffer)
            if cut is None:
                break
            yield _piece(1, buffer[:cut])
            buffer = buffer[cut:]
    if buffer:
        yield _piece(1, buffer)


def _cut(buffer: bytes) -> int | None:
    """Where the first piece in `buffer` ends, or None if that is not known yet."""
    stamp = parse_stamp(buffer[:LONGEST_STAMP])
    begin = stamp[1] if stamp else 0
    newline = buffer.find(b"\n", begin, begin + PIECE)
    if newline >= 0:
        return newline + 1
    full = begin + PIECE
    if len(buffer) < full + LONGEST_STAMP:
        return None
    if parse_stamp(buffer[full : full + LONGEST_STAMP]):
        return full
    return buffer.find(b"\n", full) + 1 or None  # an engine that does not cut lines


class Assembler:
    """Pieces -> lines, one unfinished line per stream; survives reconnections."""

    def __init__(self) -> None:
        self._parts: dict[int, list[bytes]] = {}
        self._began: dict[int, int] = {}

    def add(self, piece: Piece) -> Iterator[Line]:
        """The lines that this piece completes."""
        parts = self._parts.setdefault(piece.stream, [])
        for data in _LINES.findall(piece.data):
            if not parts:
                self._began[piece.stream] = piece.at
            parts.append(data)
            if data.endswith(b"\n"):
                yield self._finish(piece.stream)

    def rest(self) -> Iterator[Line]:
        """What was written last without an end of line."""
        for stream in [stream for stream, parts in self._parts.items() if any(parts)]:
            yield self._finish(stream)

    def _finish(self, stream: int) -> Line:
        data = b"".join(self._parts[stream])
        self._parts[stream].clear()
        data = data[:-1] if data.endswith(b"\n") else data
        return Line(self._began[stream], data.removesuffix(b"\r").decode("utf-8", "replace"))


class Seen:
    """Which of the newest pieces were delivered already, so that a stream read again repeats none.

    Pieces of stdout and stderr are stored a little out of order, and several may bear one time stamp:
    a single "last position" would lose or repeat some. This keeps all pieces of the last `margin` seconds.
    With a `rotating` log, dockerd (seen with 20.10) hands out a stretch a second time after each rotation.
    """

    def __init__(self, margin: float = 2.0, rotating: bool = False) -> None:
        self._margin = int(margin * NANOSECONDS)
        self._rotating = rotating
        self._recent: deque[_Key] = deque()
        self._pending: Counter[_Key] = Counter()
        self._last: dict[int, tuple[int, set[bytes]]] = {}
        self._newest = self._first = 0
        #: whether a stream that was read again has joined up with what was delivered before
        self.joined = True

    def rewind(self) -> int:
        """The stream is about to be read again: from when on (nanoseconds; 0: from the beginning)."""
        self._pending = Counter(self._recent)
        self._last.clear()
        self.joined = not self._pending
        return max(self._first, self._newest - self._margin, 0)

    def begin(self, piece: Piece) -> None:
        """Remember a piece from which, as the first or one of the first, a stream begins: older ones are not new."""
        self._first = self._first or piece.at
        self._remember((piece.at, piece.stream, hash(piece.data)))

    def is_new(self, piece: Piece) -> bool:
        """Whether the piece was not delivered before; remembers it."""
        key = (piece.at, piece.stream, hash(piece.data))
        if self._pending.get(key, 0) > 0:
            self._pending[key] -= 1
            self.joined = True
            return False
        if self._rotating and self._is_repeat(piece):
            return False
        self._remember(key)
        return True

    def _is_repeat(self, piece: Piece) -> bool:
        """Within one connection the time of a stream runs backwards only where the daemon repeats itself."""
        at, texts = self._last.get(piece.stream, (0, set()))
        if piece.at < at or (piece.at == at and piece.data in texts):
            return True
        self._last[piece.stream] = (piece.at, {piece.data, *(texts if piece.at == at else ())})
        return False

    def _remember(self, key: _Key) -> None:
        self._recent.append(key)
        self._newest = max(self._newest, key[0])
        while self._recent[0][0] < self._newest - self._margin:
            self._recent.popleft()
