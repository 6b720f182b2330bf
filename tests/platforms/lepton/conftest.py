"""A fake workspace, an API session with it, and a clock that hurries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.jobs.model import Job
from tao_run.jobs.request import JobRequest, parse_request
from tao_run.jobs.store import Store
from tao_run.platforms.lepton import LeptonSDK
from tao_run.platforms.lepton.account import Account
from tao_run.platforms.lepton.api import LeptonApi
from tao_run.platforms.lifecycle import build_job, submit
from tests.fakes.lepton import FakeJob, FakeLepton


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


@dataclass
class Desk:
    """An adapter on the fake, with a record, and shorthands."""

    lepton: FakeLepton
    platform: LeptonSDK
    store: Store
    notes: list[str]

    def request(self, command: str = "true", **more: Any) -> JobRequest:
        options = more.pop("options", {})
        data = {"platform": "lepton", "image": "nvcr.io/nvidia/tao:1", "gpus": 8, "command": command, **more}
        data = {key: value for key, value in data.items() if value is not None}
        return parse_request({**data, "options": {"lepton": options}}, "test")

    def build(self, command: str = "true", **more: Any) -> Job:
        return build_job(self.platform, self.request(command, **more))

    def submit(self, command: str = "true", **more: Any) -> Job:
        return submit(self.platform, self.store, self.build(command, **more))

    def native(self, command: str = "true", **more: Any) -> dict[str, Any]:
        """The body that would be sent."""
        native: dict[str, Any] = self.platform.prepare(self.build(command, **more)).native
        return native

    def adopt(self, fake: FakeJob, **changes: Any) -> Job:
        """A job of ours that the fake has as `fake`."""
        job = replace(self.build(), backend_id=fake.id, **changes)
        fake.metadata["labels"] = {"tao-run": job.id}
        return job


CREDENTIALS = {
    "LEPTON_WORKSPACE_ID": "ws1",
    "NGC_KEY": "canary-ngc-key-value",
    "HF_TOKEN": "canary-hf-token-value",
    "ACCESS_KEY": "canary-access-key",
}


@pytest.fixture
def make_desk(lepton: FakeLepton, clock: HurriedClock, tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    stores: list[Store] = []

    def make(**environ: str) -> Desk:
        notes: list[str] = []
        named = {"LEPTON_AUTH_TOKEN": lepton.token, "LEPTON_WORKSPACE_URL": lepton.url}
        credentials = Credentials({**CREDENTIALS, **named, **environ})
        store = Store(tmp_path / f"state-{len(stores)}")
        stores.append(store)
        platform = LeptonSDK(credentials=credentials, store=store, clock=clock, note=notes.append)
        return Desk(lepton, platform, store, notes)

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()
