"""Logs of a job: the batch script's and each rank's file, in time order, followed across disconnects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone

from tao_run.clock import Clock
from tao_run.errors import BackendUnreachable, UsageError
from tao_run.jobs.model import LogLine, LogQuery
from tao_run.platforms.slurm.frames import Frame, frames, new_mark, read_script
from tao_run.platforms.slurm.remote import Remote
from tao_run.platforms.slurm.timeline import INDEX, Timeline
from tao_run.platforms.streams import LineSplitter, last_lines

BATCH = "batch"
_IDLE_SECONDS = 60.0  # the script over there says something every second
# After so many quiet seconds SLURM is asked whether the job is over: a job that ends by itself says so in its
# directory, and schedulers do not like to be polled.
_ASK_AFTER = (10, 30)
_ASK_EVERY = 60
_GIVE_UP_SECONDS = 300.0
_SLICE = 8 * 1024 * 1024  # bytes that are put in order at a time
_RANK_FILE = re.compile(r"logs/rank-(\d+)\.log")
# SLURM's own words, in the batch script's log and among a rank's lines
_SLURM_SAYS = re.compile(r"(slurmstepd|slurmd|srun)[\w.-]*: ")
_LONG_AGO = datetime.fromtimestamp(0, timezone.utc)


@dataclass
class Reading:
    """Where each file is read up to, and the unfinished line of each."""

    timeline: Timeline
    offsets: dict[str, int] = field(default_factory=dict)
    splitters: dict[str, LineSplitter] = field(default_factory=dict)

    def feed(self, frame: Frame, live: datetime | None) -> Iterator[LogLine]:
        """The lines that a piece of a file completes; `live` is their time if they come as they are written."""
        self.offsets[frame.word] = frame.offset + len(frame.data)
        splitter = self.splitters.setdefault(frame.word, LineSplitter())
        parts = [(live, frame.data)] if live else self.timeline.parts(frame.word, frame.offset, frame.data)
        for time, part in parts:
            for text in splitter.feed(part):
                yield log_line(frame.word, text, time)

    def progress(self, now: datetime) -> Iterator[LogLine]:
        """What progress bars have drawn in the meantime."""
        for file, splitter in self.splitters.items():
            drawn = splitter.progress()
            if drawn is not None:
                yield log_line(file, drawn, now)

    def finish(self) -> Iterator[LogLine]:
        """The last line of each file, if it has no newline."""
        for file, splitter in sorted(self.splitters.items()):
            for text in splitter.finish():
                time = next((time for time, _ in self.timeline.parts(file, self.offsets[file], b"x")), None)
                yield log_line(file, text, time)


def log_line(file: str, text: str, time: datetime | None) -> LogLine:
    """A line with its rank. What SLURM says is a note: the job's own lines stay as the job wrote them."""
    rank = _RANK_FILE.fullmatch(file)
    if rank is None:
        return LogLine(text, time, None, BATCH, kind="note")
    return LogLine(text, time, int(rank[1]), f"rank-{rank[1]}", "note" if _SLURM_SAYS.match(text) else "line")


class LogReader:
    """Reads the logs in one job directory. `ended` asks SLURM whether the job is over."""

    def __init__(self, remote: Remote, directory: str, nodes: int, clock: Clock, ended: Callable[[], bool]) -> None:
        self._remote = remote
        self._directory = directory
        self._nodes = nodes
        self._clock = clock
        self._ended = ended

    def lines(self, query: LogQuery) -> Iterator[LogLine]:
        """The lines asked for, in time order, then new ones as they come.

        Raises UsageError for an unknown replica, BackendUnreachable after five minutes without a connection.
        """
        files = self._files(query.replica)
        reading = Reading(self._timeline())
        if query.since is not None:
            reading.offsets = reading.timeline.since(query.since)
        yield from last_lines(self._so_far(files, reading, query), query.tail)
        if query.follow:
            yield from self._read(files, reading, follow=True)
            yield from reading.finish()

    def _files(self, replica: str | None) -> str:
        if replica is None:
            return "logs/job.log logs/rank-*.log"
        if replica == BATCH:
            return "logs/job.log"
        rank = replica.removeprefix("rank-")
        if not rank.isdecimal() or int(rank) >= self._nodes:
            raise UsageError(f"no replica {replica!r}: there are {BATCH} and ranks 0 to {self._nodes - 1}")
        return f"logs/rank-{int(rank)}.log"

    def _timeline(self) -> Timeline:
        reading = Reading(Timeline(""))
        return Timeline("\n".join(line.text for line in self._read(INDEX, reading) if line.kind != "gap"))

    def _so_far(self, files: str, reading: Reading, query: LogQuery) -> Iterator[LogLine]:
        """What is there now. For a tail each file's last lines are enough: the last of all are among them."""
        if query.tail is None:
            for until in reading.timeline.slices(_SLICE):
                yield from _in_order(self._read(files, reading, until=until))
        rest = list(self._read(files, reading, tail=query.tail))
        if not query.follow:
            rest += reading.finish()
        yield from _in_order(rest)

    def _read(
        self,
        files: str,
        reading: Reading,
        follow: bool = False,
        tail: int | None = None,
        until: Mapping[str, int] | None = None,
    ) -> Iterator[LogLine]:
        """Complete lines until the end (`until`: file -> offset); a disconnect costs time and nothing else."""
        failing_since: float | None = None
        while True:
            try:
                for line in self._connection(files, reading, follow, tail, until):
                    failing_since = None
                    yield line
                return
            except BackendUnreachable:
                now = self._clock.monotonic()
                if failing_since is not None and (not follow or now - failing_since > _GIVE_UP_SECONDS):
                    raise
                failing_since = failing_since if failing_since is not None else now
            self._clock.sleep(1.0)

    def _connection(
        self,
        files: str,
        reading: Reading,
        follow: bool,
        tail: int | None = None,
        until: Mapping[str, int] | None = None,
    ) -> Iterator[LogLine]:
        mark, quiet = new_mark(), 0
        script = read_script(mark, self._directory, files, reading.offsets, follow, tail, until)
        with closing(frames(self._remote.stream(script, _IDLE_SECONDS), mark)) as stream:
            for frame in stream:
                if frame.data:
                    quiet = 0
                    yield from reading.feed(frame, self._clock.now() if follow else None)
                elif frame.word == "gone":
                    yield LogLine(f"{self._directory} is gone from the cluster, and the log with it", kind="gap")
                    return
                elif frame.word != "quiet":
                    return
                else:
                    quiet += 1
                    yield from reading.progress(self._clock.now())
                    if self._is_over(quiet):
                        break
            else:
                raise BackendUnreachable("the stream of the log broke off")
        yield from self._connection(files, reading, follow=False)

    def _is_over(self, quiet: int) -> bool:
        """Whether SLURM says that the job has ended, asked now and then. While it does not answer, it has not."""
        if quiet not in _ASK_AFTER and quiet % _ASK_EVERY:
            return False
        try:
            return self._ended()
        except BackendUnreachable:
            return False


def _in_order(lines: Iterator[LogLine] | list[LogLine]) -> Iterator[LogLine]:
    """Lines of many files by time; those of one file stay in their order, SLURM's own come last of a moment."""
    yield from sorted(lines, key=lambda line: (line.time or _LONG_AGO, line.rank is None, line.rank or 0))
