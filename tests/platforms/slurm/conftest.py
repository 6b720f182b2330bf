"""What the SLURM tests work with: an adapter on a real cluster, with a record of its own."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.jobs.model import Job, JobState, JobStatus, LogQuery
from tao_run.jobs.request import JobRequest, parse_request
from tao_run.jobs.store import Store
from tao_run.platforms.lifecycle import build_job, submit
from tao_run.platforms.slurm import SlurmSDK
from tests.services.slurm import HOME, USER, Cluster, plain_cluster, slurm_cluster

__all__ = ["plain_cluster", "slurm_cluster"]
IMAGE = "nvcr.io/nvidia/tao/tao-toolkit:6.0"


@dataclass
class Site:
    """A cluster and an adapter for it."""

    cluster: Cluster
    store: Store
    base: Path
    more: dict[str, str] = field(default_factory=dict)

    def environ(self, **more: str) -> dict[str, str]:
        """Credentials that reach the cluster; an empty value unsets."""
        given = {
            "SLURM_USER": USER,
            "SLURM_HOSTNAME": "login-a,login-b",
            "SLURM_SSH_CONFIG": str(self.cluster.ssh_config),
            "SLURM_BASE_RESULTS_DIR": str(self.base),
            **self.more,
            **more,
        }
        return {name: value for name, value in given.items() if value}

    def adapter(self, **more: str) -> SlurmSDK:
        """An adapter as a new process would have it."""
        return SlurmSDK(Credentials(self.environ(**more), {}), self.store)

    def request(self, command: str | list[str] = "true", **more: Any) -> JobRequest:
        options = more.pop("options", {})
        data = {"platform": "slurm", "image": IMAGE, "gpus": 0, "command": command, **more}
        return parse_request({**data, "options": {"slurm": options}}, "test")

    def build(self, command: str | list[str] = "true", **more: Any) -> Job:
        return build_job(self.adapter(), self.request(command, **more))

    def submit(self, command: str | list[str] = "true", **more: Any) -> Job:
        return submit(self.adapter(), self.store, self.build(command, **more))

    def look(self, *jobs: Job) -> list[JobStatus]:
        found = self.adapter().poll(jobs)
        return [found[job.id] for job in jobs]

    def until(self, job: Job, seen: Callable[[JobStatus], bool], seconds: float = 40.0) -> JobStatus:
        """Poll until a status is as wanted; fails with the last one."""
        deadline = time.monotonic() + seconds
        while True:
            status = self.look(job)[0]
            if seen(status):
                return status
            assert time.monotonic() < deadline, status
            time.sleep(0.2)

    def ended(self, job: Job, seconds: float = 40.0) -> JobStatus:
        return self.until(job, lambda status: status.state.terminal, seconds)

    def running(self, job: Job) -> JobStatus:
        return self.until(job, lambda status: status.state is JobState.RUNNING)

    def texts(self, job: Job, **query: Any) -> list[str]:
        return [line.text for line in self.adapter().logs(job, LogQuery(**query)) if line.kind == "line"]

    def directory(self, job: Job) -> Path:
        return self.base / "jobs" / job.name

    def clear(self) -> None:
        """End all jobs of the user, so that the next test has the cluster for itself."""
        self.cluster.run("scancel", "-u", USER)


@pytest.fixture
def site(slurm_cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    """The big cluster."""
    made = Site(slurm_cluster, Store(tmp_path / "state"), HOME / "work")
    yield made
    made.clear()
    made.store.close()


@pytest.fixture
def plain(plain_cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    """The small cluster: no accounting, no pyxis."""
    made = Site(plain_cluster, Store(tmp_path / "state"), HOME / "plain")
    yield made
    made.clear()
    made.store.close()


@pytest.fixture
def scratch(slurm_cluster: Cluster) -> Iterator[Path]:
    """A directory in the login user's home, gone after the test."""
    made = Path(tempfile.mkdtemp(prefix="scratch-", dir=HOME))
    shutil.chown(made, USER)
    yield made
    shutil.rmtree(made)
