"""A fake workspace, an API session with it, and a clock that hurries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone

import pytest

from tao_run.platforms.lepton.account import Account
from tao_run.platforms.lepton.api import LeptonApi
from tests.fakes.lepton import FakeLepton


class HurriedClock:
    """The real time, but a sleep lasts a fiftieth of what was asked. `slept` tells what was asked."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        time.sleep(seconds / 50)


@pytest.fixture
def lepton() -> Iterator[FakeLepton]:
    with FakeLepton() as server:
        yield server


@pytest.fixture
def clock() -> HurriedClock:
    return HurriedClock()


@pytest.fixture
def api(lepton: FakeLepton, clock: HurriedClock) -> LeptonApi:
    return LeptonApi(Account("ws1", lepton.url), lepton.token, clock)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Waits until something is so, at most 20 seconds."""

    def wait(so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not so():
            assert time.monotonic() < deadline, "it did not come to be"
            time.sleep(0.01)

    return wait
