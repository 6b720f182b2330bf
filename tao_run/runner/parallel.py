"""Runs many small tasks in a few threads, with a bound on memory, and stops at the first failure."""

from __future__ import annotations

import random
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Callable, Iterable, Iterator, Sequence, TypeVar

from .errors import Transient, Unreachable
from .stop import Stop

T = TypeVar("T")
_TICK = 0.2
_DELAYS = (0.5, 2.0, 8.0)  # seconds before each new attempt; the clients retry single requests by themselves


def run_all(tasks: Iterable[Callable[[], None]], workers: int, stop: Stop, tick: Callable[[], None]) -> None:
    """Run all tasks; `tasks` is read as it goes, so it may be long.

    Raises the first error of a task, and Stopped as soon as the job has to end; what already runs may then
    go on for the rest of its request.
    """
    source = iter(tasks)
    reading = threading.Lock()
    failed = threading.Event()

    def work() -> None:
        while not failed.is_set() and not stop.requested:
            with reading:
                task = next(source, None)
            if task is None:
                return
            finished = False
            try:
                task()
                finished = True
            finally:
                if not finished:
                    failed.set()

    pool = ThreadPoolExecutor(workers)
    try:
        waiting = {pool.submit(work) for _ in range(workers)}
        while waiting:
            done, waiting = wait(waiting, timeout=_TICK, return_when=FIRST_EXCEPTION)
            tick()
            stop.check()
            for future in done:
                future.result()
    finally:
        failed.set()
        pool.shutdown(wait=not stop.requested)


def retrying(action: Callable[[], T], stop: Stop, delays: Sequence[float] = _DELAYS) -> T:
    """The result of `action`, tried again with back-off when the store fails in a way that may pass."""
    for delay in delays:
        try:
            return action()
        except (Transient, Unreachable):
            stop.sleep(delay * random.uniform(0.5, 1.0))
    return action()


class Budget:
    """Bytes that may be in memory at once. One that asks for more than there is waits for all of it."""

    def __init__(self, total: int) -> None:
        self._total = self._free = total
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold `size` bytes, waiting until they are free."""
        size = min(size, self._total)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= size)
            self._free -= size
        try:
            yield
        finally:
            with self._changed:
                self._free += size
                self._changed.notify_all()
