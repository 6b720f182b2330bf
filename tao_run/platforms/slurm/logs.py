"""Logs of a job: the batch script's and each rank's file, read over one connection, resumed by offset."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from tao_run.clock import Clock
from tao_run.errors import BackendUnreachable, UsageError
from tao_run.jobs.model import LogLine, LogQuery
from tao_run.platforms.slurm.cluster import shell_path
from tao_run.platforms.slurm.frames import frames
from tao_run.platforms.slurm.remote import Remote
from tao_run.platforms.streams import LineSplitter

BATCH = "batch"
_IDLE_SECONDS = 60.0  # the script over there says something every second
_ASK_EVERY = 10  # quiet seconds between two looks at the job's state
_GIVE_UP_SECONDS = 300.0
_CHUNK = 4 * 1024 * 1024
_RANK_FILE = re.compile(r"logs/rank-(\d+)\.log")

# Prints frames; what was read before a disconnect is skipped by its offset, so nothing is lost or repeated. It ends
# when the job's script has left its exit code and all is read, when all is read and nobody follows, or when the
# connection is closed (its own heartbeat then fails to be written).
_READ = """\
{{
M={mark} follow={follow} tail={tail}
echo
cd {directory} || {{ echo "$M gone"; exit 0; }}
declare -A at=( {offsets} )
if [ -n "$tail" ]; then
  for file in {files}; do
    [ -f "$file" ] && [ -z "${{at[$file]-}}" ] || continue
    size=$(stat -L -c %s "$file")
    at[$file]=$(( size - $(head -c "$size" "$file" | tail -n "$tail" | wc -c) ))
  done
fi
while :; do
  over= grew=
  [ -e exit-code ] && over=1
  while read -r size file; do
    from=${{at[$file]:-0}}
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


@dataclass
class Reading:
    """Where each file is read up to, and the unfinished line of each."""

    offsets: dict[str, int] = field(default_factory=dict)
    splitters: dict[str, LineSplitter] = field(default_factory=dict)

    def feed(self, file: str, offset: int, data: bytes) -> list[str]:
        """The lines that bytes from `offset` of a file complete."""
        self.offsets[file] = offset + len(data)
        return self.splitters.setdefault(file, LineSplitter()).feed(data)

    def finish(self) -> Iterator[tuple[str, list[str]]]:
        """The last line of each file, if it has no newline."""
        for file, splitter in sorted(self.splitters.items()):
            yield file, splitter.finish()


class LogReader:
    """Reads the logs in one job directory. `ended` asks SLURM whether the job is over."""

    def __init__(self, remote: Remote, directory: str, nodes: int, clock: Clock, ended: Callable[[], bool]) -> None:
        self._remote = remote
        self._directory = directory
        self._nodes = nodes
        self._clock = clock
        self._ended = ended
        self._live = False  # whether lines come as they are written, so that their time is known

    def lines(self, query: LogQuery) -> Iterator[LogLine]:
        """The lines asked for, files one after the other, followed ones as they come.

        Raises UsageError for an unknown replica, BackendUnreachable after five minutes without a connection.
        """
        files, reading = self._files(query.replica), Reading()
        if query.since is not None:
            yield LogLine("SLURM's logs have no times: --since is not applied", kind="note")
        if query.tail is not None:
            yield from self._tail(files, reading, query)
        if query.tail is None or query.follow:
            for file, texts in self._read(files, reading, query.follow):
                yield from self._labelled(file, texts)
        for file, texts in reading.finish():
            yield from self._labelled(file, texts)

    def _files(self, replica: str | None) -> str:
        if replica is None:
            return "logs/job.log logs/rank-*.log"
        if replica == BATCH:
            return "logs/job.log"
        rank = replica.removeprefix("rank-")
        if not rank.isdigit() or int(rank) >= self._nodes:
            raise UsageError(f"no replica {replica!r}: there are {BATCH} and ranks 0 to {self._nodes - 1}")
        return f"logs/rank-{int(rank)}.log"

    def _labelled(self, file: str, texts: list[str]) -> Iterator[LogLine]:
        time = self._clock.now() if self._live else None
        rank = _RANK_FILE.fullmatch(file)
        for text in texts:
            if rank:
                yield LogLine(text, time, int(rank[1]), f"rank-{rank[1]}")
            else:
                yield LogLine(text, time, None, BATCH)

    def _tail(self, files: str, reading: Reading, query: LogQuery) -> Iterator[LogLine]:
        """The last lines, `tail` in all: without times to go by, each file gives its share."""
        found: dict[str, list[str]] = {}
        for file, texts in self._read(files, reading, follow=False, tail=query.tail):
            found.setdefault(file, []).extend(texts)
        if not query.follow:
            for file, texts in reading.finish():
                found.setdefault(file, []).extend(texts)
        counts = shares({file: len(texts) for file, texts in found.items()}, query.tail or 0)
        for file in sorted(found):
            yield from self._labelled(file, found[file][len(found[file]) - counts[file] :])

    def _read(
        self, files: str, reading: Reading, follow: bool, tail: int | None = None
    ) -> Iterator[tuple[str, list[str]]]:
        """Complete lines by file, until the end; a disconnect costs time and nothing else."""
        failing_since: float | None = None
        while True:
            try:
                for found in self._connection(files, reading, follow, tail):
                    failing_since = None
                    yield found
                return
            except BackendUnreachable:
                now = self._clock.monotonic()
                if failing_since is not None and (not follow or now - failing_since > _GIVE_UP_SECONDS):
                    raise
                failing_since = failing_since if failing_since is not None else now
            self._clock.sleep(1.0)

    def _connection(
        self, files: str, reading: Reading, follow: bool, tail: int | None
    ) -> Iterator[tuple[str, list[str]]]:
        mark, quiet = f"tao-run-{secrets.token_hex(8)}", 0
        script = self._script(mark, files, reading, follow, tail)
        with closing(frames(self._remote.stream(script, _IDLE_SECONDS), mark)) as stream:
            for frame in stream:
                if frame.data:
                    quiet = 0
                    yield frame.word, reading.feed(frame.word, frame.offset, frame.data)
                elif frame.word != "quiet":
                    return
                else:
                    self._live, quiet = True, quiet + 1
                    yield from self._progress(reading)
                    if quiet % _ASK_EVERY == 0 and self._ended():
                        break
            else:
                raise BackendUnreachable("the stream of the log broke off")
        yield from self._connection(files, reading, follow=False, tail=None)

    def _progress(self, reading: Reading) -> Iterator[tuple[str, list[str]]]:
        """What progress bars have drawn in the meantime."""
        for file, splitter in reading.splitters.items():
            drawn = splitter.progress()
            if drawn is not None:
                yield file, [drawn]

    def _script(self, mark: str, files: str, reading: Reading, follow: bool, tail: int | None) -> str:
        return _READ.format(
            mark=mark,
            follow="1" if follow else "",
            tail="" if tail is None else max(0, tail),
            directory=shell_path(self._directory),
            offsets=" ".join(f"[{file}]={offset}" for file, offset in reading.offsets.items()),
            files=files,
            chunk=_CHUNK,
        )


def shares(lines: Mapping[str, int], total: int) -> dict[str, int]:
    """How many of `total` lines each file gives, of those it has: as even as can be."""
    given = dict.fromkeys(lines, 0)
    left, hungry = total, sorted(lines, key=lambda name: (lines[name], name))
    for position, name in enumerate(hungry):
        given[name] = min(lines[name], left // (len(hungry) - position))
        left -= given[name]
    return given
