"""A time limit on what a command waits for, whatever it is blocked in."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tao_run.errors import WaitTimeout


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raises WaitTimeout in the block after `seconds`; None is no limit. Main thread only.

    The signal comes again until the block has ended: one that arrives inside a library that drops
    exceptions would otherwise be lost.
    """
    if seconds is None:
        yield
        return
    ends = time.monotonic() + seconds

    def ring(number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= ends:
            raise WaitTimeout(f"stopped after {seconds:g} s; the job goes on", "give more with --timeout")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
