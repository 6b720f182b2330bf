"""Frames in a byte stream: `MARK file offset length` and that many bytes, with noise before the first one."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from tao_run.errors import ProtocolError


class Frame(NamedTuple):
    """A piece of a file, or a word (`quiet`, `over`, `end`, `gone`) when there is no data."""

    word: str
    offset: int = 0
    data: bytes = b""


def frames(chunks: Iterator[bytes], mark: str) -> Generator[Frame, None, None]:
    """The frames of a stream, long ones in pieces as they come.

    Lines before the first frame are a login host's welcome. Raises ProtocolError if something else than a
    frame follows a frame: what came before it is good, and its offset is where to go on.
    """
    reader = _Reader(chunks)
    begun = False
    while (line := reader.line()) is not None:
        words = line.decode("utf-8", "replace").split(" ")
        if words[0] != mark:
            if begun and line:
                raise ProtocolError("the stream of the log lost its step")
            continue
        begun = True
        if len(words) == 2:
            yield Frame(words[1])
            continue
        offset, left = int(words[2]), int(words[3])
        while left:
            data = reader.some(left)
            yield Frame(words[1], offset, data)
            offset, left = offset + len(data), left - len(data)


class _Reader:
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""

    def _more(self) -> bool:
        chunk = next(self._chunks, b"")
        self._buffer += chunk
        return bool(chunk)

    def line(self) -> bytes | None:
        """The next line without its newline; None at the end of the stream."""
        while b"\n" not in self._buffer:
            if not self._more():
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def some(self, most: int) -> bytes:
        """At least one and at most `most` bytes. Raises ProtocolError at the end of the stream."""
        if not self._buffer and not self._more():
            raise ProtocolError("the stream of the log ended in the middle")
        data, self._buffer = self._buffer[:most], self._buffer[most:]
        return data
