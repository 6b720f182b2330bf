"""Fixtures of the conformance suite: every test runs over every rig."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_run.credentials import Credentials
from tao_run.jobs.store import Store
from tests.conformance.bench import Bench
from tests.conformance.rig import MovableClock, Rig, all_rigs, load_rig


@pytest.fixture(scope="session", params=all_rigs())
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = load_rig(request.param)
    made.start(tmp_path_factory.mktemp(f"rig-{request.param}"))
    yield made
    made.stop()


@pytest.fixture
def bench(rig: Rig, tmp_path: Path) -> Iterator[Bench]:
    clock = MovableClock()
    store = Store(tmp_path / "state")
    made = Bench(rig, rig.make(Credentials(rig.environ()), store, clock), store, clock)
    yield made
    made.clean_up()
    store.close()
