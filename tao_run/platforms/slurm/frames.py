"""The log stream: a script that prints pieces of files as frames, and the reader of those frames."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Mapping
from typing import NamedTuple

from tao_run.errors import ProtocolError
from tao_run.platforms.slurm.cluster import shell_path

_CHUNK = 4 * 1024 * 1024

# Prints frames: a header line `MARK file offset length`, then exactly that many bytes and a newline. What was read
# before a disconnect is skipped by its offset, so nothing is lost or repeated. It ends when the job's script has left
# its exit code and all is read, when all is read and nobody follows, or when the connection is closed (its own
# heartbeat then fails to be written).
_READ = """\
{{
M={mark} follow={follow} tail={tail} until={until}
echo
cd {directory} || {{ echo "$M gone"; exit 0; }}
declare -A at=( {offsets} ) end=( {ends} )
if [ -n "$tail" ]; then
  for file in {files}; do
    [ -f "$file" ] || continue
    size=$(stat -L -c %s "$file")
    first=$(( size - $(head -c "$size" "$file" | tail -n "$tail" | wc -c) ))
    [ "$first" -le "${{at[$file]:-0}}" ] || at[$file]=$first
  done
fi
while :; do
  over= grew=
  [ -e exit-code ] && over=1
  while read -r size file; do
    from=${{at[$file]:-0}}
    [ -z "$until" ] || size=${{end[$file]:-0}}
    [ "$size" -gt "$from" ] || continue
    count=$(( size - from > {chunk} ? {chunk} : size - from ))
    echo "$M $file $from $count"
    tail -c +$(( from + 1 )) "$file" | head -c $count
    echo
    at[$file]=$(( from + count ))
    grew=1
  done < <(stat -L -c '%s %n' {files})
  [ -z "$grew" ] || continue
  [ -z "$over" ] && [ -n "$follow" ] || {{ echo "$M end"; exit 0; }}
  echo "$M quiet" || exit
  sleep 1
done
exit; }} 2>/dev/null
"""


class Frame(NamedTuple):
    """A piece of a file, or a word (`quiet`, `end`, `gone`) when there is no data."""

    word: str
    offset: int = 0
    data: bytes = b""


def new_mark() -> str:
    """A word that no log holds."""
    return f"tao-run-{secrets.token_hex(8)}"


def read_script(
    mark: str,
    directory: str,
    files: str,
    offsets: Mapping[str, int],
    follow: bool = False,
    tail: int | None = None,
    until: Mapping[str, int] | None = None,
) -> str:
    """Bash text that prints the frames of `files` (patterns) in a job's directory, from the given offsets on.

    `tail` skips all but the last lines of each file, `until` stops at the given offsets, `follow` goes on until
    the job's script has ended.
    """
    return _READ.format(
        mark=mark,
        follow="1" if follow else "",
        tail="" if tail is None else max(0, tail),
        until="" if until is None else "1",
        directory=shell_path(directory),
        offsets=_table(offsets),
        ends=_table(until or {}),
        files=files,
        chunk=_CHUNK,
    )


def _table(offsets: Mapping[str, int]) -> str:
    return " ".join(f"[{file}]={offset}" for file, offset in offsets.items())


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
