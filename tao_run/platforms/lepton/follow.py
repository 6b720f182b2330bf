"""Following a running job: live streams for speed, the log service for the truth, each line exactly once."""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime

from tao_run.errors import BackendRejected, BackendUnreachable
from tao_run.jobs.model import JobStatus, LogLine, LogQuery, Replica
from tao_run.platforms.lepton.api import LeptonApi, job_path
from tao_run.platforms.lepton.ends import trim
from tao_run.platforms.lepton.logrange import Cursor, LogRange, Selector
from tao_run.platforms.lepton.logs import JobLog, note, to_ns
from tao_run.platforms.lepton.trail import Trail
from tao_run.platforms.lepton.workers import rank_of
from tao_run.platforms.streams import LineSplitter

#: more replicas than this are read by one range query instead of a stream each
MOST_STREAMS = 8
_TICK = 3.0  # seconds between two looks at the job
_REPLICA_TICKS = 10  # a restarted worker is a new replica: look for them this often
_IDLE = 300.0  # seconds of silence after which a connection is given up
_SILENT = 30.0  # seconds of silence after which the log service is asked too: streams stall without an error
_LATE = 20.0  # seconds that a record may be late in the log service
_SETTLE = 1.0


@dataclass(frozen=True)
class Event:
    """What a stream's thread reports: a line, or (text None) that the connection is over."""

    trail: Trail
    connection: int
    text: str | None
    time: datetime | None = None


class Follower:
    """Follows one job until it has ended and its last lines are read.

    `status` and `replicas` ask the backend; while it does not answer, the follower says so and goes on.
    """

    def __init__(
        self,
        api: LeptonApi,
        log: JobLog,
        query: LogQuery,
        status: Callable[[], JobStatus],
        replicas: Callable[[], list[Replica]],
    ) -> None:
        self._api = api
        self._clock = api.clock
        self._log = log
        self._query = query
        self._ask_status = status
        self._ask_replicas = replicas
        self._trails: dict[str, Trail] = {}
        self._events: queue.Queue[Event] = queue.Queue(maxsize=10_000)
        self._stopped = threading.Event()
        self._said = ""

    def lines(self) -> Iterator[LogLine]:
        """The past in time order, then lines in the order in which they become known."""
        try:
            ticks = 0
            while not (yield from self._tick(ticks)):
                for trail in self._trails.values():
                    self._connect(trail)
                yield from self._listen(_TICK)
                ticks += 1
            yield from self._drain()
        finally:
            self._stopped.set()

    def _tick(self, ticks: int) -> Generator[LogLine, None, bool]:
        """One look at the job; returns whether it has ended."""
        over = False
        try:
            status = self._ask_status()
            over = status.state.terminal
            if over or ticks % _REPLICA_TICKS == 0 or self._expects_more(status):
                yield from self._join(self._ask_replicas())
            if not self._trails and not over:
                yield from self._say(f"waiting: the job {status.message or status.reason}")
            yield from self._catch_up(all_of_them=over)
        except BackendUnreachable as error:
            yield from self._say(f"{error.message}; still trying")
            return False
        return over

    def _say(self, text: str) -> Iterator[LogLine]:
        if text != self._said:
            self._said = text
            yield note(text)

    def _expects_more(self, status: JobStatus) -> bool:
        wanted = (status.total or 1) if self._query.replica is None else 1
        return "" not in self._trails and len(self._trails) < wanted

    def _join(self, replicas: list[Replica]) -> Iterator[LogLine]:
        """Take up replicas that were not there before, with what was asked for of their past."""
        wanted = self._query.replica
        names = [r.name for r in replicas if r.name and wanted in (None, r.name, str(r.rank))]
        if len(names) > MOST_STREAMS:
            names = [""]
        fresh = [name for name in names if name not in self._trails and "" not in self._trails]
        if not fresh:
            return
        first, tail = not self._trails, self._query.tail
        trails = [self._trail(name) for name in fresh]
        lines: list[LogLine] = []
        if first and tail is not None:
            start, end = self._start(), self._log.now()
            count = self._log.with_marks(tail)
            ends = heapq.merge(*(trail.last_lines(start, end, count) for trail in trails), key=_time_of)
            lines = trim((shown for line in ends for shown in self._log.marks.present(line)), tail)
        self._trails.update((trail.replica, trail) for trail in trails)
        yield from lines
        for line in heapq.merge(*(trail.read(self._log.now()) for trail in trails), key=_time_of):
            yield from self._log.marks.present(line)

    def _trail(self, name: str) -> Trail:
        log = LogRange(self._api, Selector(self._log.job_id, replica=name))
        cursor = Cursor(log, self._start(), 0.0 if name else _LATE)
        return Trail(name, log, cursor, streams=bool(name) and self._query.since is None)

    def _start(self) -> int:
        since = to_ns(self._query.since) if self._query.since else 0
        return max(self._log.start(), since)

    def _catch_up(self, all_of_them: bool = False) -> Iterator[LogLine]:
        """Read from the log service the trails that no stream serves, or whose stream is silent."""
        now = self._clock.monotonic()
        for trail in self._trails.values():
            if all_of_them or not trail.live or now - trail.heard_at > _SILENT:
                trail.heard_at = now
                for line in trail.read(self._log.now()):
                    yield from self._log.marks.present(line)

    def _drain(self) -> Iterator[LogLine]:
        """The job has ended: first what the streams still hold, then what the log service has more."""
        deadline = self._clock.monotonic() + _TICK
        while any(trail.live for trail in self._trails.values()) and self._clock.monotonic() < deadline:
            yield from self._listen(0.2)
        for trail in self._trails.values():
            trail.disconnected()
        quiet = 0
        while quiet < 2:
            before = self._shown()
            yield from self._catch_up(all_of_them=True)
            quiet = quiet + 1 if self._shown() == before else 0
            if quiet < 2:
                self._clock.sleep(_SETTLE)

    def _shown(self) -> int:
        return sum(trail.shown for trail in self._trails.values())

    def _listen(self, seconds: float) -> Iterator[LogLine]:
        """What the streams bring within a time; ends early when one of them breaks off."""
        if not any(trail.live for trail in self._trails.values()):
            self._clock.sleep(seconds)
            return
        deadline = self._clock.monotonic() + seconds
        while (left := deadline - self._clock.monotonic()) > 0:
            try:
                event = self._events.get(timeout=left)
            except queue.Empty:
                return
            trail = event.trail
            if event.connection != trail.connection:
                continue
            if event.text is None:
                trail.disconnected()
                return
            if trail.is_new(event.text, self._clock.monotonic()):
                line = LogLine(event.text, event.time, rank_of(trail.replica), trail.replica)
                yield from self._log.marks.present(line)

    def _connect(self, trail: Trail) -> None:
        if trail.can_stream:
            connection = trail.connected(self._clock.monotonic())
            threading.Thread(target=self._pump, args=(trail, connection), daemon=True).start()

    def _pump(self, trail: Trail, connection: int) -> None:
        """A thread: the bytes of one connection to lines. Knows nothing of what was shown.

        A last line without its newline is not reported: the connection may have been cut within it, and the
        log service has it whole.
        """
        splitter = LineSplitter()
        path = job_path(self._log.job_id, "replicas", trail.replica, "log")
        try:
            with self._api.stream(path, _IDLE) as response:
                for chunk in response.iter_content(chunk_size=None):
                    for text in splitter.feed(chunk):
                        if not self._report(Event(trail, connection, text, self._clock.now())):
                            return
        except (BackendUnreachable, BackendRejected):
            pass  # the log service is asked for what the stream did not bring
        self._report(Event(trail, connection, None))

    def _report(self, event: Event) -> bool:
        while not self._stopped.is_set():
            try:
                self._events.put(event, timeout=0.5)
            except queue.Full:
                continue
            return True
        return False


def _time_of(line: LogLine) -> float:
    return line.time.timestamp() if line.time else 0.0
