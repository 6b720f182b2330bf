"""A clock that only moves when somebody sleeps."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


class StillClock:
    """Sleeping is instant and moves both clocks; `asleep` moves the wall clock alone, as a suspended laptop does."""

    def __init__(self) -> None:
        self.start = datetime(2026, 1, 14, 9, 0, tzinfo=timezone.utc)
        self.seconds = 0.0
        self.ahead = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds + self.ahead)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += max(0.0, seconds)

    def asleep(self, seconds: float) -> None:
        self.ahead += seconds
