"""The log of a job: all its pods merged by time, followed across cuts, stalls, rotation and replaced pods."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tao_run.errors import BackendUnreachable, NotFound, TaoRunError, UsageError
from tao_run.jobs.model import LogLine, LogQuery
from tao_run.platforms.kubernetes import pods
from tao_run.platforms.kubernetes.client import Api
from tao_run.platforms.kubernetes.podlog import NotStarted, PodLog
from tao_run.platforms.kubernetes.pods import Object
from tao_run.platforms.streams import last_lines, merge_by_time

_ATTEMPTS = 4


@dataclass(frozen=True)
class Timing:
    """Seconds: a silent stream is opened anew after `stall`; pods are looked at every `look`; a lost connection
    is tried again after `retry`, told after `tell`, and is an error after `give_up` without any answer."""

    stall: float = 60.0
    look: float = 3.0
    retry: float = 1.0
    tell: float = 15.0
    give_up: float = 900.0
    batch: float = 0.1


@dataclass(frozen=True)
class View:
    """What a follow needs to know of its job: its pods now, whether it is over, why it does not run.

    `over` ends the follow once all streams have ended, `stop` ends it at once.
    """

    pods: Sequence[Object]
    over: bool
    waiting: str = ""
    stop: bool = False


class JobLog:
    """The merged log of one job. `look` asks the cluster for the job's pods and whether it is over."""

    def __init__(self, api: Api, query: LogQuery, look: Callable[[], View], timing: Timing, ranks: int = 1) -> None:
        self._api, self._query, self._look, self._timing = api, query, look, timing
        self._ranks = ranks
        self._known: dict[str, PodLog] = {}

    def lines(self) -> Iterator[LogLine]:
        """The log so far, and with `follow` what comes until the job is over."""
        view = self._look()
        check_replica(self._query, self._ranks, [str(pod["metadata"]["name"]) for pod in view.pods])
        yield from self.backlog(view)
        if self._query.follow:
            yield from self.live(view)
        elif not self._known:
            yield _note(view.waiting or "there is no log: no pod of this job is left")

    def backlog(self, view: View) -> Iterator[LogLine]:
        """What has been logged up to now."""
        found = self._adopt(view)
        streams = [self._snapshot(log, self._query.tail) for log in found]
        yield from last_lines(merge_by_time(streams), self._query.tail)

    def live(self, view: View) -> Iterator[LogLine]:
        """What comes after the backlog, until the job is over and drained."""
        follow = _Follow(self._timing)
        try:
            for log in self._known.values():
                follow.start(log, self._read_on)
            yield from self._watch(view, follow)
        finally:
            follow.stop()

    def _watch(self, view: View, follow: _Follow) -> Iterator[LogLine]:
        said, next_look = "", 0.0
        while True:
            if time.monotonic() >= next_look:
                view = self._see(view)
                for log in self._adopt(view):
                    follow.start(log, self._read_on)
                if view.waiting and view.waiting != said:
                    yield _note(f"waiting: {view.waiting}")
                said, next_look = view.waiting, time.monotonic() + self._timing.look
            yield from follow.batch()
            if view.stop or (view.over and follow.idle()):
                yield from self._last_words(follow)
                return
            if follow.idle():
                next_look = min(next_look, time.monotonic() + self._timing.retry)

    def _see(self, before: View) -> View:
        try:
            return self._look()
        except BackendUnreachable:
            return before  # the streams notice an outage themselves, and count how long it lasts

    def _last_words(self, follow: _Follow) -> Iterator[LogLine]:
        yield from follow.batch()
        yield from merge_by_time([self._snapshot(log, None) for log in self._known.values()])

    def _adopt(self, view: View) -> list[PodLog]:
        """Readers for the pods not seen before that the query asks for."""
        found = []
        for pod in sorted(view.pods, key=lambda p: str(p["metadata"].get("creationTimestamp"))):
            name, rank = str(pod["metadata"]["name"]), pods.rank(pod)
            if name not in self._known and self._query.replica in (None, name, str(rank)):
                self._known[name] = PodLog(self._api, name, rank, self._query.since)
                found.append(self._known[name])
        return found

    def _snapshot(self, log: PodLog, tail: int | None) -> Iterator[LogLine]:
        """One reading of a pod's log from its cursor, whatever connections it takes."""
        for attempt in range(_ATTEMPTS):
            try:
                yield from log.read(False, self._timing.stall, tail)
                return
            except NotStarted as error:
                if not self._query.follow:
                    yield _note(error.message, log)
                return
            except NotFound:
                return
            except BackendUnreachable:
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(self._timing.retry * 2**attempt)

    def _read_on(self, log: PodLog, put: Callable[[LogLine], None], wait: Callable[[float], bool]) -> None:
        """Follow one pod to its end; runs in a thread of its own. `wait` returns True when it is time to stop."""
        heard, told = time.monotonic(), False
        while True:
            try:
                for line in log.read(True, self._timing.stall):
                    put(line)
                if self._has_ended(log):
                    return
                heard, told = time.monotonic(), False
            except NotStarted:
                heard = time.monotonic()
            except NotFound:
                return
            except BackendUnreachable as error:
                if log.answered:  # a quiet job, or a log that was rotated under the stream: open it anew
                    heard, told = time.monotonic(), False
                elif time.monotonic() - heard > self._timing.give_up:
                    raise
                elif not told and time.monotonic() - heard > self._timing.tell:
                    put(_note(f"{error.message}; trying again", log))
                    told = True
            if wait(self._timing.retry):
                return

    def _has_ended(self, log: PodLog) -> bool:
        """Whether the pod's container will never log again. Raises BackendUnreachable."""
        try:
            pod = self._api.get("pods", log.pod)
        except NotFound:
            return True
        return pods.phase(pod) in ("Succeeded", "Failed") or (pods.ended(pod) is not None and not pods.is_running(pod))


class _Follow:
    """The threads that read, one per pod, and the queue between them and the one who prints."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._lines: queue.Queue[LogLine | TaoRunError] = queue.Queue(maxsize=10_000)
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()

    def start(
        self, log: PodLog, read: Callable[[PodLog, Callable[[LogLine], None], Callable[[float], bool]], None]
    ) -> None:
        def run() -> None:
            try:
                read(log, self._put, self._stopped.wait)
            except TaoRunError as error:
                self._put(error)

        thread = threading.Thread(target=run, name=f"log of {log.pod}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def idle(self) -> bool:
        """Whether no thread reads any more and nothing is left in the queue."""
        return not any(thread.is_alive() for thread in self._threads) and self._lines.empty()

    def _put(self, item: LogLine | TaoRunError) -> None:
        while not self._stopped.is_set():
            try:
                self._lines.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def batch(self) -> Iterator[LogLine]:
        """Lines that came within a moment of each other, in time order. Raises what a reader met."""
        found: list[LogLine] = []
        failure: TaoRunError | None = None
        until = time.monotonic() + self._timing.batch
        while failure is None and (left := until - time.monotonic()) > 0 and len(found) < 5_000:
            try:
                item = self._lines.get(timeout=left)
            except queue.Empty:
                break
            if isinstance(item, TaoRunError):
                failure = item
            else:
                found.append(item)
        yield from merge_by_time(_by_replica(found))
        if failure is not None:
            raise failure


def _by_replica(lines: Sequence[LogLine]) -> list[Iterator[LogLine]]:
    found: dict[str, list[LogLine]] = {}
    for line in lines:
        found.setdefault(line.replica, []).append(line)
    return [iter(held) for held in found.values()]


def _note(text: str, log: PodLog | None = None) -> LogLine:
    return LogLine(text, None, log.rank if log else None, log.pod if log else "", "note")


def check_replica(query: LogQuery, ranks: int, names: Sequence[str]) -> None:
    """Raises UsageError if the query names a replica that the job does not have."""
    if query.replica not in (None, *map(str, range(ranks)), *names):
        raise UsageError(
            f"no replica {query.replica!r}: the ranks are 0 to {ranks - 1}",
            f"or name a pod: {', '.join(names)}" if names else "",
        )
