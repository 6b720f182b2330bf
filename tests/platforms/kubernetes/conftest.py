"""A fake cluster, an adapter for it, and jobs whose command is already known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.jobs.model import Job, new_id
from tao_run.jobs.request import parse_request
from tao_run.jobs.store import Store
from tao_run.platforms.kubernetes import KubernetesSDK
from tao_run.platforms.kubernetes.logs import Timing
from tao_run.platforms.kubernetes.manifest import Parts
from tao_run.platforms.lifecycle import build_job
from tests.fakes.kubernetes import FakeKubernetes

QUICK = Timing(stall=0.6, look=0.15, retry=0.05, tell=0.2, give_up=3.0, batch=0.02)


@pytest.fixture
def cluster() -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as fake:
        fake.node("node1", gpus=8)
        fake.node("node2", gpus=8)
        yield fake


@pytest.fixture
def make_sdk(cluster: FakeKubernetes, tmp_path: Path) -> Callable[..., KubernetesSDK]:
    def make(token: str = "admintoken", namespace: str = "default", **environ: str) -> KubernetesSDK:
        config = cluster.kubeconfig(tmp_path / f"kubeconfig-{token}-{namespace}", token, namespace)
        credentials = Credentials({"KUBECONFIG": str(config), **environ})
        return KubernetesSDK(credentials=credentials, store=Store(tmp_path / "state"), timing=QUICK)

    return make


@pytest.fixture
def sdk(make_sdk: Callable[..., KubernetesSDK]) -> KubernetesSDK:
    return make_sdk(ACCESS_KEY="AKIA-very-secret", SECRET_KEY="s3cr3t$(HOME)$$value", NGC_KEY="nvapi-key-secret")


class Jobs:
    """Builds and launches jobs of one adapter; `command` is what the container runs."""

    def __init__(self, sdk: KubernetesSDK) -> None:
        self.sdk = sdk

    def build(self, command: str = "true", **fields: Any) -> tuple[Job, Parts]:
        secrets = fields.pop("secrets", {})
        payload = fields.pop("payload", None)
        options = {key: fields.pop(key) for key in list(fields) if key in type(self.sdk).options_model().model_fields}
        data = {"image": "nvcr.io/nvidia/tao:6.0", "command": command, "gpus": 0, **fields}
        request = parse_request({"platform": "kubernetes", "options": {"kubernetes": options}, **data})
        return build_job(self.sdk, request), Parts(command, request.env, secrets, payload)

    def prepare(self, command: str = "true", **fields: Any) -> Any:
        return self.sdk.assemble(*self.build(command, **fields))

    def start(self, command: str = "true", **fields: Any) -> Job:
        launch = self.prepare(command, **fields)
        self.sdk.store.add(launch.job, "nobody:1:1")
        self.sdk.store.launched(launch.job.id, self.sdk.launch(launch))
        return self.sdk.store.get(launch.job.id)

    def ended(self, job: Job, seconds: float = 15.0) -> Any:
        """The status once it is terminal."""
        return self.until(job, lambda status: status.state.terminal, seconds)

    def until(self, job: Job, wanted: Callable[[Any], bool], seconds: float = 15.0) -> Any:
        deadline = self.sdk.clock.monotonic() + seconds
        while True:
            status = self.sdk.poll([job])[job.id]
            if wanted(status):
                return status
            assert self.sdk.clock.monotonic() < deadline, status
            self.sdk.clock.sleep(0.03)


@pytest.fixture
def jobs(sdk: KubernetesSDK) -> Jobs:
    return Jobs(sdk)


def a_job(spec: dict[str, Any] | None = None, **fields: Any) -> Job:
    """A record of a job, without any cluster."""
    job_id = new_id()
    known = {"image": "img:1", "command": "true", "platform": "kubernetes", **(spec or {})}
    parts: dict[str, Any] = {"id": job_id, "name": f"train-{job_id}", "platform": "kubernetes", "spec": known}
    parts.update(account="fake/default http://127.0.0.1:1", created_at=datetime.now(timezone.utc))
    return Job(**{**parts, **fields})
