"""A backend with a script: jobs whose true states follow from the time, behind a service that fails as told.

`ScriptedPlatform` is an adapter like any third party's: a subclass of `Platform` that knows nothing of tests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from tao_run.errors import BackendUnreachable, TaoRunError
from tao_run.jobs.model import Check, Evidence, Job, JobState, JobStatus, LogLine, LogQuery, NodeEvent, Replica
from tao_run.jobs.request import JobRequest
from tao_run.platforms.base import Launch, Platform

Fault = Callable[[str], TaoRunError | None]


def no_fault(operation: str) -> None:
    """A service that always answers."""


@dataclass(frozen=True)
class Life:
    """What becomes of a job, in seconds after its launch: when it starts, when it ends and how."""

    starts: float = 2.0
    ends: float = 10.0
    how: JobState = JobState.COMPLETE
    log: tuple[str, ...] = ("hello",)
    events: tuple[NodeEvent, ...] = ()
    exit_code: int | None = None
    node: str = "node-1"

    def at(self, seconds: float) -> JobState:
        if seconds < self.starts:
            return JobState.PENDING
        return JobState.RUNNING if seconds < self.ends else self.how


@dataclass
class Entry:
    """A job as the backend has it."""

    life: Life
    launched: datetime
    native: Mapping[str, Any]
    canceled: bool = False


@dataclass
class Backend:
    """One account of the service. `fault` is asked before every operation whether it goes wrong."""

    now: Callable[[], datetime]
    fault: Fault = no_fault
    life: Callable[[Job], Life] = lambda job: Life()
    jobs: dict[str, Entry] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, operation: str) -> None:
        """Count an operation, and fail if the script says so."""
        with self.lock:
            self.calls[operation] = self.calls.get(operation, 0) + 1
        error = self.fault(operation)
        if error is not None:
            raise error

    def truth(self, name: str) -> JobState:
        """What is really the case of a job, whoever can see it."""
        entry = self.jobs[name]
        if entry.canceled:
            return JobState.CANCELED
        return entry.life.at((self.now() - entry.launched).total_seconds())


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")
    account: str = "main"
    exclude: str | None = None


class ScriptedPlatform(Platform):
    """An adapter over scripted backends, one for each account."""

    name = "scripted"
    avoid_option = "exclude"
    launch_grace = 0.0
    backends: dict[str, Backend]

    @classmethod
    def over(cls, backends: dict[str, Backend], **more: Any) -> ScriptedPlatform:
        made = cls(**more)
        made.backends = backends
        return made

    @classmethod
    def options_model(cls) -> type[BaseModel]:
        return Options

    def account(self, request: JobRequest) -> str:
        return str(request.for_platform().get("account") or "main")

    def results_dir(self, request: JobRequest, job_id: str) -> str:
        return f"{request.results.rstrip('/')}/{job_id}" if request.results else ""

    def prepare(self, job: Job) -> Launch:
        return Launch(job, {"name": job.name, "command": job.request.command, "options": dict(job.options)})

    def launch(self, launch: Launch) -> str:
        backend = self.backends[launch.job.account]
        backend.enter("launch")
        with backend.lock:
            assert launch.job.name not in backend.jobs, f"{launch.job.name} was launched twice"
            backend.jobs[launch.job.name] = Entry(backend.life(launch.job), backend.now(), launch.native)
        try:
            backend.enter("launch-reply")
        except BackendUnreachable as error:
            raise BackendUnreachable(f"the answer was lost: {error.message}") from None
        return launch.job.name

    def find(self, job: Job) -> str | None:
        backend = self.backends[job.account]
        backend.enter("find")
        return job.name if job.name in backend.jobs else None

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        backend = self.backends[jobs[0].account]
        backend.enter("poll")
        return {job.id: self._status(backend, job) for job in jobs}

    def _status(self, backend: Backend, job: Job) -> JobStatus:
        state = backend.truth(job.name)
        life = backend.jobs[job.name].life
        code = life.exit_code if state is life.how else None
        return JobStatus(state, native_state=state.value.upper(), exit_code=code, ready=None, observed_at=backend.now())

    def logs(self, job: Job, query: LogQuery) -> Iterator[LogLine]:
        backend = self.backends[job.account]
        backend.enter("logs")
        for text in backend.jobs[job.name].life.log:
            yield LogLine(text, rank=0)

    def replicas(self, job: Job) -> list[Replica]:
        return [Replica(0, job.name, node=self.backends[job.account].jobs[job.name].life.node)]

    def cancel(self, job: Job, delete: bool = False) -> JobStatus:
        backend = self.backends[job.account]
        backend.enter("cancel")
        if not backend.truth(job.name).terminal:
            backend.jobs[job.name].canceled = True
        return self._status(backend, job)

    def evidence(self, job: Job) -> Evidence:
        backend = self.backends[job.account]
        backend.enter("evidence")
        life = backend.jobs[job.name].life
        tail = tuple(LogLine(text, rank=0) for text in life.log)
        return Evidence(self._status(backend, job), tuple(self.replicas(job)), life.events, tail)

    def check_access(self, request: JobRequest | None = None) -> list[Check]:
        return []
