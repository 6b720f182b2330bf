"""Chaos: backends that fail at random while jobs are submitted, watched, retried and watchers die.

What is checked all the time: a state that is shown as reached is the true one; a state shown as stale was true
once; an end is only shown when it has happened, and never changes; nothing is launched twice.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tao_run.cli.watching import outcome
from tao_run.errors import (
    BackendFault,
    BackendUnreachable,
    CredentialRefused,
    ProtocolError,
    RateLimited,
    TaoRunError,
)
from tao_run.jobs.model import Job, JobState, NodeEvent
from tao_run.jobs.observe import Sweep
from tao_run.jobs.retry import AutomaticRetry, analysis_of, latest_attempt
from tao_run.jobs.watch import Spawn, Watcher
from tests.fakes.scripted import Life
from tests.jobs.bench import Bench

ACCOUNTS = ("lepton-ws", "slurm-a", "kube", "docker", "brev")
LOST = NodeEvent("NodeNotReady", "Node is not ready", node="node-9")


@dataclass
class Chaos:
    """One run. `wrong` collects every state that was not true."""

    state: Path
    seed: int
    jobs_per_account: int = 12
    minutes: float = 10.0
    failing: float = 0.3
    spawn: Spawn | None = None
    program_errors: bool = True
    wrong: list[str] = field(default_factory=list)
    sweeps: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.bench = Bench(self.state, ACCOUNTS)
        for backend in self.bench.backends.values():
            backend.life = self._life
        self.ends: dict[str, JobState] = {}

    def _life(self, job: Job) -> Life:
        pick, starts = self.chance.random(), self.chance.uniform(0, self.minutes * 20)
        ends = starts + self.chance.uniform(0, self.minutes * 40)
        if pick < 0.2:
            return Life(starts, ends, JobState.ERROR, ("hi",), (LOST,), 143)
        if pick < 0.3 and self.program_errors:
            return Life(starts, ends, JobState.ERROR, ("CUDA out of memory",), exit_code=1)
        return Life(starts, ends, JobState.CANCELED if 0.3 < pick < 0.33 and self.program_errors else JobState.COMPLETE)

    def _fault(self, calm_after: float) -> Callable[[str], TaoRunError | None]:
        def fault(operation: str) -> TaoRunError | None:
            if self.bench.clock.seconds > calm_after or self.chance.random() > self.failing:
                return None
            kinds: list[TaoRunError] = [
                BackendUnreachable("timed out"),
                BackendFault("502"),
                ProtocolError("<html>"),
                RateLimited("429", retry_after=self.chance.choice((None, 3.0, 40.0))),
                CredentialRefused("401"),
            ]
            return self.chance.choice(kinds if operation in ("poll", "evidence", "find") else kinds[:2])

        return fault

    def run(self) -> int:
        """Submit, watch through several watchers that die, and return the last one's exit code."""
        for backend in self.bench.backends.values():
            backend.fault = self._fault(self.minutes * 60)
        first = self._submit_all()
        while True:
            jobs = [latest_attempt(self.bench.store, self.bench.store.get(job.id)) for job in first]
            watcher = self._watcher(jobs)
            if self._watch(watcher, dies_after=self.chance.randint(3, 60)):
                return outcome([job.status.state for job in watcher.jobs.values()])

    def _submit_all(self) -> list[Job]:
        for account in ACCOUNTS:
            for number in range(self.jobs_per_account):
                with contextlib.suppress(TaoRunError):
                    self.bench.submit(account=account, retries=2, name=f"{account}-{number}")
        return [job for job in self.bench.store.recent(None) if job.retry_of is None]

    def _watcher(self, jobs: list[Job]) -> Watcher:
        bench = self.bench
        retry = AutomaticRetry(lambda job: bench.platform, bench.store, self._analysis, bench.notes.append)
        more = {} if self.spawn is None else {"spawn": self.spawn}
        return bench.watcher(*jobs, interval=30.0, successor=retry, chance=self.chance.random, **more)

    def _analysis(self, job: Job):  # type: ignore[no-untyped-def]
        return analysis_of(self.bench.platform, job, self.bench.clock.now())

    def _watch(self, watcher: Watcher, dies_after: int) -> bool:
        for count, sweep in enumerate(watcher.sweeps()):
            self._check(sweep)
            if count >= dies_after and not sweep.ended:
                return False
        return True

    def _check(self, sweep: Sweep) -> None:
        self.sweeps += 1
        for job in sweep.jobs:
            known = self.bench.backends[job.account].jobs.get(job.name)
            state = job.status.state
            observed = job.status.observed_at
            if known is None or observed is None:
                if state is not JobState.PENDING and (known is not None or state is not JobState.ERROR):
                    self.wrong.append(f"{job.name} was never looked at and is shown as {state}")
                continue
            then = known.life.at((observed - known.launched).total_seconds())
            if state is not then:
                self.wrong.append(f"{job.name} shown as {state}, was {then} when it was looked at")
            if state.terminal and self.ends.setdefault(job.id, state) is not state:
                self.wrong.append(f"{job.name} ended as {self.ends[job.id]} and is now {state}")

    def true_code(self) -> int:
        """The exit code that follows from what really became of the jobs."""
        first = [job for job in self.bench.store.recent(None) if job.retry_of is None]
        states = []
        for job in (latest_attempt(self.bench.store, one) for one in first):
            launched = job.name in self.bench.backends[job.account].jobs
            states.append(self.bench.backends[job.account].truth(job.name) if launched else JobState.ERROR)
        return outcome(states)
