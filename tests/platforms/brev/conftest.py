"""A Brev cloud and an adapter on it, with a clock that never waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.jobs.model import Job, JobState, LogLine, LogQuery
from tao_run.jobs.request import parse_request
from tao_run.jobs.store import Store
from tao_run.platforms.brev import BrevSDK
from tao_run.platforms.lifecycle import build_job, observe, submit
from tests.fakes.brev import FakeBrev

CANARY = "canary-51c2e9$'\"x"


class StepClock:
    """Sleeping moves it ahead; a little real time passes so that processes get on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> datetime:
        return datetime.now(timezone.utc) + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        self.ahead += seconds
        time.sleep(min(seconds, 0.02))


@dataclass
class Desk:
    """What a test of the adapter works with."""

    cloud: FakeBrev
    store: Store
    clock: StepClock
    values: dict[str, str]
    notes: list[str] = field(default_factory=list)

    @property
    def sdk(self) -> BrevSDK:
        """A fresh adapter, as the next process has it."""
        return BrevSDK(Credentials(self.values), self.store, self.clock, self.notes.append)

    def build(self, command: str | list[str] = "echo hello", **more: Any) -> Job:
        options = {"gpu_type": "L40S", **more.pop("options", {})}
        data = {"platform": "brev", "image": "mini:1", "gpus": 1, "command": command, **more}
        return build_job(self.sdk, parse_request({**data, "options": {"brev": options}}))

    def submit(self, command: str | list[str] = "echo hello", **more: Any) -> Job:
        return submit(self.sdk, self.store, self.build(command, **more))

    def look(self, job: Job) -> Job:
        return observe(self.sdk, self.store, [self.store.get(job.id)])[0]

    def wait(self, job: Job, until: Callable[[Job], bool] = lambda job: job.status.state.terminal) -> Job:
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            seen = self.look(job)
            if until(seen):
                return seen
            time.sleep(0.05)
        raise AssertionError(f"{job.name} is still {seen.status}")

    def running(self, job: Job) -> Job:
        return self.wait(job, lambda seen: seen.status.state is JobState.RUNNING)

    def texts(self, job: Job, **query: Any) -> list[str]:
        lines: Iterator[LogLine] = self.sdk.logs(self.store.get(job.id), LogQuery(**query))
        return [line.text for line in lines if line.kind == "line"]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    cloud = FakeBrev(tmp_path / "brev")
    for name in ("PATH", "HOME"):
        monkeypatch.setenv(name, cloud.environ[name])
    store = Store(tmp_path / "state")
    yield Desk(cloud, store, StepClock(), {"HF_TOKEN": CANARY, "NGC_KEY": "ngc-" + CANARY})
    cloud.close()
    store.close()
