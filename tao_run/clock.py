"""Time as something that is passed in: the real clock, and the protocol that tests implement."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """What the rest of the program knows of time."""

    def now(self) -> datetime:
        """The wall clock, always with a time zone (UTC)."""

    def monotonic(self) -> float:
        """Seconds that never run backwards."""

    def sleep(self, seconds: float) -> None:
        """Wait; interruptible by Ctrl-C."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
