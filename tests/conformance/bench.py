"""What a conformance test works with: submit on a rig, wait for an end, read logs, clean up."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tao_run.errors import TaoRunError
from tao_run.jobs.model import Job, JobState, JobStatus, LogLine, LogQuery
from tao_run.jobs.store import Store
from tao_run.platforms.base import Platform
from tao_run.platforms.lifecycle import build_job, cancel, observe, submit
from tests.conformance.rig import MovableClock, Rig


@dataclass
class Bench:
    """A platform on a rig, with a record of its own."""

    rig: Rig
    platform: Platform
    store: Store
    clock: MovableClock
    live: list[Job] = field(default_factory=list)

    def build(self, command: str | list[str], **more: Any) -> Job:
        return build_job(self.platform, self.rig.request(command, **more))

    def submit(self, command: str | list[str], **more: Any) -> Job:
        job = submit(self.platform, self.store, self.build(command, **more))
        self.live.append(job)
        return job

    def look(self, job: Job) -> Job:
        return observe(self.platform, self.store, [self.store.get(job.id)])[0]

    def wait(self, job: Job, *states: JobState) -> JobStatus:
        """Poll until the job has ended, or is in one of `states`; fails with what was seen."""
        deadline = time.monotonic() + self.rig.patience
        while time.monotonic() < deadline:
            seen = self.look(job)
            if seen.status.state.terminal or seen.status.state in states:
                return seen.status
            time.sleep(0.2)
        raise AssertionError(f"{job.name} is still {self.store.get(job.id).status} after {self.rig.patience} s")

    def wait_for_lines(self, job: Job, count: int) -> None:
        """Wait until the log has so many lines: a state of Running does not say that the command has begun."""
        deadline = time.monotonic() + self.rig.patience
        while len(self.texts(job)) < count:
            assert time.monotonic() < deadline, f"{job.name} has not written {count} lines"
            time.sleep(0.2)

    def run(self, command: str | list[str], **more: Any) -> tuple[Job, JobStatus]:
        job = self.submit(command, **more)
        return job, self.wait(job)

    def lines(self, job: Job, **query: Any) -> list[LogLine]:
        return [line for line in self.platform.logs(self.store.get(job.id), LogQuery(**query)) if line.kind == "line"]

    def texts(self, job: Job, **query: Any) -> list[str]:
        return [line.text for line in self.lines(job, **query)]

    def again(self) -> Platform:
        """A new adapter over the same record, as the next process has it."""
        from tao_run.credentials import Credentials

        return self.rig.make(Credentials(self.rig.environ()), self.store, self.clock)

    def clean_up(self) -> None:
        """End what a failing test may have left running."""
        for job in self.live:
            known = self.store.get(job.id)
            if not known.status.state.terminal:
                try:
                    cancel(self.platform, self.store, known)
                except TaoRunError as error:
                    print(f"could not cancel {job.name}: {error}")
