"""Signals: remembers that one asked the job to end, for all who wait or work meanwhile."""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import Callable, Optional

from .errors import Stopped

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)  # schedulers announce the end of the time with these
_SLICE = 0.1


class Stop:
    """Whether the job has to end, and by which signal.

    Handlers only set plain attributes: locks of the threading module may be held when a signal arrives.
    """

    def __init__(self) -> None:
        self.number: Optional[int] = None
        self.forward: Optional[Callable[[int], None]] = None

    def install(self) -> None:
        """Take over the signals. As process 1 of a container this also makes them arrive at all."""
        for number in (*ENDING, *PASSED_ON):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        if number in ENDING and self.number is None:
            self.number = number
        if self.forward is not None:
            self.forward(number)

    @property
    def requested(self) -> bool:
        """Whether the job has to end."""
        return self.number is not None

    def check(self) -> None:
        """Raises Stopped if the job has to end."""
        if self.number is not None:
            raise Stopped(self.number)

    def sleep(self, seconds: float) -> None:
        """Wait, but not longer than until the job has to end. Raises Stopped then."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.check()
            time.sleep(min(_SLICE, seconds))
