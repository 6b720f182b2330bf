"""Scripted backends, a record and a still clock, put together for tests of watching and retrying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tao_run.credentials import Credentials
from tao_run.jobs.model import Job
from tao_run.jobs.request import JobRequest, parse_request
from tao_run.jobs.store import Store
from tao_run.jobs.watch import Watcher
from tao_run.platforms.lifecycle import build_job, submit
from tests.fakes.clock import StillClock
from tests.fakes.scripted import Backend, Life, ScriptedPlatform


@dataclass
class Bench:
    """Everything a watcher needs, and what was said to the user."""

    state: Path
    accounts: tuple[str, ...] = ("main",)
    clock: StillClock = field(default_factory=StillClock)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store(self.state)
        self.backends = {name: Backend(self.clock.now) for name in self.accounts}
        self.platform = ScriptedPlatform.over(
            self.backends,
            credentials=Credentials({}),
            store=self.store,
            clock=self.clock,
            note=self.notes.append,
        )

    @property
    def backend(self) -> Backend:
        return self.backends[self.accounts[0]]

    def request(self, account: str = "main", **fields: Any) -> JobRequest:
        options = {"scripted": {"account": account}}
        return parse_request({"platform": "scripted", "command": "train", "options": options, **fields})

    def submit(self, life: Life | None = None, account: str = "main", **fields: Any) -> Job:
        if life is not None:
            self.backends[account].life = lambda job: life
        return submit(self.platform, self.store, build_job(self.platform, self.request(account, **fields)))

    def watcher(self, *jobs: Job, interval: float = 300.0, **more: Any) -> Watcher:
        """A watcher that asks in this thread and leaves nothing to chance."""
        more = {"spawn": _now, "chance": lambda: 0.5, **more}
        return Watcher(jobs, lambda job: self.platform, self.store, self.clock, interval, **more)


def _now(task: Callable[[], None]) -> None:
    task()
