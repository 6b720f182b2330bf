"""A docker platform on a real dockerd, with a record of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.jobs.model import Job, JobStatus, LogLine, LogQuery
from tao_run.jobs.request import parse_request
from tao_run.jobs.store import Store
from tao_run.platforms.docker import DockerSDK
from tao_run.platforms.lifecycle import build_job, cancel, observe, submit
from tests.services.docker import DockerService, dockerd, registry

__all__ = ["dockerd", "registry"]


class Bench:
    """Submits to one daemon and looks at what became of it."""

    def __init__(self, service: DockerService, directory: Path, **credentials: str) -> None:
        self.service = service
        self.store = Store(directory)
        self.notes: list[str] = []
        self.sdk = DockerSDK(Credentials(credentials), self.store, note=self.notes.append)
        self.jobs: list[Job] = []

    def build(self, command: str | list[str], **more: Any) -> Job:
        options = {"host": self.service.host, "network": "host", "stop_seconds": 1, **more.pop("options", {})}
        data = {"platform": "docker", "image": "mini:1", "gpus": 0, "command": command, **more}
        return build_job(self.sdk, parse_request({**data, "options": {"docker": options}}))

    def submit(self, command: str | list[str], **more: Any) -> Job:
        job = self.build(command, **more)
        self.jobs.append(job)
        return submit(self.sdk, self.store, job)

    def look(self, job: Job) -> JobStatus:
        return observe(self.sdk, self.store, [self.store.get(job.id)])[0].status

    def wait(self, job: Job, until: Callable[[JobStatus], bool] = lambda status: status.state.terminal) -> JobStatus:
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            status = self.look(job)
            if until(status) or status.state.terminal:
                return status
            time.sleep(0.1)
        raise AssertionError(f"{job.name} is still {self.look(job)}")

    def run(self, command: str | list[str], **more: Any) -> tuple[Job, JobStatus]:
        job = self.submit(command, **more)
        return job, self.wait(job)

    def log_stream(self, job: Job) -> Iterator[LogLine]:
        return self.sdk.logs(self.store.get(job.id), LogQuery(follow=True))

    def log(self, job: Job, **query: Any) -> list[LogLine]:
        return list(self.sdk.logs(self.store.get(job.id), LogQuery(**query)))

    def texts(self, job: Job, **query: Any) -> list[str]:
        return [line.text for line in self.log(job, **query) if line.kind == "line"]

    def texts_of(self, container: str) -> list[str]:
        return self.service.cli("logs", container).splitlines()

    def output(self, command: str | list[str], **more: Any) -> list[str]:
        """What a job that must succeed prints."""
        job, status = self.run(command, **more)
        assert status.state.value == "Complete", (status, self.texts(job))
        return self.texts(job)

    def inspect(self, job: Job) -> dict[str, Any]:
        import json

        return dict(json.loads(self.service.cli("inspect", job.name))[0])

    def exists(self, job: Job) -> bool:
        return bool(self.service.cli("ps", "-aq", "--filter", f"name=^{job.name}$").strip())

    def close(self) -> None:
        for job in self.jobs:
            if not self.store.get(job.id).status.state.terminal and self.exists(job):
                cancel(self.sdk, self.store, self.store.get(job.id))
        self.store.close()


@pytest.fixture
def bench(dockerd: DockerService, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(dockerd, tmp_path / "state", HF_TOKEN="hf_canary-'\"$1", NGC_KEY="nvapi-canary-0123456789")
    yield made
    made.close()
