"""Watches jobs of any mix of platforms until all have ended: one poll per account and tick, never giving up."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tao_run.clock import Clock
from tao_run.errors import NotInstalled, RateLimited, TaoRunError
from tao_run.jobs.model import Job
from tao_run.jobs.observe import Account, Sweep

if TYPE_CHECKING:
    from tao_run.jobs.store import Store
    from tao_run.platforms.base import Platform

#: seconds before the second, third, ... look: a job that fails at once is seen at once
FIRST_DELAYS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_AFTER_CHANGE = 3  # where the delays go on when a job of the account has changed
_BUSIEST = 20  # however much changes, at most this many looks per interval
_FIRST_BACKOFF = 5.0
_LONGEST_BACKOFF = 900.0
_STEP = 1.0  # seconds that an answer is waited for before other accounts are looked at again
_SLEPT = 30.0  # seconds by which the wall clock must have run ahead

Task = Callable[[], None]
Spawn = Callable[[Task], None]


def in_thread(task: Task) -> None:
    """Run a task beside this one. The thread does not keep the process alive: Ctrl-C leaves at once."""
    threading.Thread(target=task, daemon=True).start()


@dataclass
class Pace:
    """When an account is looked at next. Times are of the monotonic clock, in seconds."""

    due: float
    looks: int = 0
    failures: int = 0
    waiting: bool = False

    def succeeded(self, now: float, interval: float, changed: bool) -> None:
        """Next look after a growing delay, up to the interval; sooner again when something has changed."""
        self.failures = 0
        restarts = changed and self.looks > _AFTER_CHANGE
        if restarts:
            self.looks = _AFTER_CHANGE
        ramp = FIRST_DELAYS[self.looks] if self.looks < len(FIRST_DELAYS) else interval
        self.looks += 1
        self.due = now + min(interval, max(ramp, interval / _BUSIEST if restarts else 0.0))

    def failed(self, now: float, interval: float, error: TaoRunError, chance: float) -> None:
        """Back off: doubled with each failure, spread by chance so that many watchers do not come together."""
        longest = max(interval, min(_LONGEST_BACKOFF, interval * 4))
        delay = min(longest, min(_FIRST_BACKOFF, interval) * 2.0 ** min(self.failures, 16))
        asked = error.retry_after if isinstance(error, RateLimited) else None
        self.failures += 1
        self.due = now + max(delay * (0.5 + chance), asked or 0.0)


@dataclass(frozen=True)
class _Answer:
    """What came of one look: `seen` holds the jobs as observed, or the error that was met."""

    account: Account
    asked: Sequence[Job]
    seen: Future[list[Job]]


class _HandingOver:
    """Whatever goes wrong inside is raised where the future's result is asked for, not in this thread."""

    def __init__(self, future: Future[list[Job]]) -> None:
        self._future = future

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if error is not None:
            self._future.set_exception(error)
        return True


class Watcher:
    """Looks at jobs again and again and yields what is known of all of them.

    An account that does not answer keeps the last states, marked as not reachable, and is asked again later;
    the others go on meanwhile. `successor` is asked about each job that has ended and may name a job that
    takes its place (an automatic retry). Only the end of all jobs or `timeout` seconds end it.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        platform_of: Callable[[Job], Platform],
        store: Store,
        clock: Clock,
        interval: float,
        *,
        successor: Callable[[Job], Job | None] = lambda job: None,
        spawn: Spawn = in_thread,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.faults: dict[Account, TaoRunError] = {}
        self.interval = interval
        self._platform_of = platform_of
        self._store = store
        self._clock = clock
        self._successor = successor
        self._spawn = spawn
        self._chance = chance
        self._paces: dict[Account, Pace] = {}
        self._skew = clock.now().timestamp() - clock.monotonic()
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()

    def sweeps(self, timeout: float | None = None) -> Iterator[Sweep]:
        """What is known: at once, when something was learned, and after a quiet interval.

        Raises NotInstalled if nothing else is left to ask.
        """
        shown = self._clock.monotonic()
        deadline = None if timeout is None else shown + timeout
        yield self._sweep()
        while not self._all_ended():
            self._after_sleep()
            self._start_due()
            heard = self._collect(self._pause(shown + self.interval, deadline))
            if heard or self._clock.monotonic() >= shown + self.interval:
                shown = self._clock.monotonic()
                yield self._sweep()
                self._raise_if_hopeless()
            if deadline is not None and self._clock.monotonic() >= deadline:
                return

    @property
    def next_look(self) -> float:
        """Seconds until the next account is looked at; 0 while an answer is awaited."""
        if any(pace.waiting for pace in self._paces.values()):
            return 0.0
        return max(0.0, min((pace.due for pace in self._live_paces()), default=0.0) - self._clock.monotonic())

    def _sweep(self) -> Sweep:
        return Sweep(tuple(self.jobs.values()), dict(self.faults))

    def _all_ended(self) -> bool:
        return all(job.status.state.terminal for job in self.jobs.values())

    def _live(self) -> dict[Account, list[Job]]:
        groups: dict[Account, list[Job]] = {}
        for job in self.jobs.values():
            if not job.status.state.terminal:
                groups.setdefault((job.platform, job.account), []).append(job)
        return groups

    def _live_paces(self) -> list[Pace]:
        return [self._pace(account) for account in self._live()]

    def _pace(self, account: Account) -> Pace:
        return self._paces.setdefault(account, Pace(self._clock.monotonic()))

    def _start_due(self) -> None:
        now = self._clock.monotonic()
        for account, jobs in self._live().items():
            pace = self._pace(account)
            if not pace.waiting and pace.due <= now:
                pace.waiting = True
                self._spawn(self._look_at(account, jobs))

    def _look_at(self, account: Account, jobs: list[Job]) -> Task:
        seen: Future[list[Job]] = Future()
        seen.add_done_callback(lambda done: self._answers.put(_Answer(account, jobs, done)))

        def look() -> None:
            from tao_run.platforms.lifecycle import observe

            with _HandingOver(seen):
                seen.set_result(observe(self._platform_of(jobs[0]), self._store, jobs))

        return look

    def _after_sleep(self) -> None:
        """The machine has slept (the wall clock ran on without us): look at everything now."""
        skew = self._clock.now().timestamp() - self._clock.monotonic()
        if skew - self._skew > _SLEPT:
            for pace in self._paces.values():
                pace.due = self._clock.monotonic()
        self._skew = skew

    def _pause(self, *limits: float | None) -> float:
        """Seconds until something is due: an account, or one of the limits."""
        now = self._clock.monotonic()
        dues = [pace.due for pace in self._live_paces() if not pace.waiting]
        return max(0.0, min([*dues, *(limit for limit in limits if limit is not None)]) - now)

    def _collect(self, pause: float) -> bool:
        """Take in what was answered, waiting for `pause` seconds if nothing was. True if anything came."""
        got = self._take(pause)
        while self._take(0.0):
            got = True
        return got

    def _take(self, pause: float) -> bool:
        try:
            answer = self._next_answer(pause)
        except queue.Empty:
            return False
        self._accept(answer)
        return True

    def _next_answer(self, pause: float) -> _Answer:
        if not self._answers.empty():
            return self._answers.get_nowait()
        if any(pace.waiting for pace in self._paces.values()):
            return self._answers.get(timeout=min(pause, _STEP) or 0.01)
        if pause:
            self._clock.sleep(pause)
        raise queue.Empty

    def _accept(self, answer: _Answer) -> None:
        pace, now = self._pace(answer.account), self._clock.monotonic()
        pace.waiting = False
        try:
            jobs = answer.seen.result()
        except TaoRunError as error:
            self.faults[answer.account] = error
            pace.failed(now, self.interval, error, self._chance())
            jobs = [_unreachable(job, error) for job in answer.asked]
        else:
            self.faults.pop(answer.account, None)
            pace.succeeded(now, self.interval, any(self._changed(job) for job in jobs))
        for job in jobs:
            self._replace(job)

    def _changed(self, job: Job) -> bool:
        before = self.jobs[job.id].status
        return (before.state, before.ready) != (job.status.state, job.status.ready)

    def _replace(self, job: Job) -> None:
        next_job = self._successor(job) if job.status.state.terminal else None
        if next_job is None:
            self.jobs[job.id] = job
        else:
            self.jobs = {(next_job if key == job.id else old).id: next_job if key == job.id else old
                         for key, old in self.jobs.items()}  # fmt: skip

    def _raise_if_hopeless(self) -> None:
        """A package that is missing here stays missing: say so instead of asking for ever."""
        live = self._live()
        missing = [error for error in self.faults.values() if isinstance(error, NotInstalled)]
        if live and missing and all(isinstance(self.faults.get(account), NotInstalled) for account in live):
            raise missing[0]


def _unreachable(job: Job, error: TaoRunError) -> Job:
    return replace(job, status=replace(job.status, reachable=False, message=error.message))
