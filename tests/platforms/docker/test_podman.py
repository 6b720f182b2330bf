"""Podman's API in Docker's place, where it answers differently."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_run.errors import BackendRejected
from tao_run.jobs.model import JobState
from tao_run.platforms.lifecycle import cancel, submit
from tests.platforms.docker.conftest import Bench
from tests.platforms.docker.test_follow import LONG_LINE
from tests.services.docker import DockerService, PodmanService, docker_service


@pytest.fixture(scope="module")
def podman() -> Iterator[DockerService]:
    with docker_service(PodmanService) as service:
        yield service


@pytest.fixture
def own(podman: DockerService, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(podman, tmp_path / "state", HF_TOKEN="hf_canary-'\"$1")
    yield made
    made.close()


def test_a_job_with_a_secret_and_its_log(own: Bench) -> None:
    command = f'echo "$HF_TOKEN"; ls -A /.tao-run; {LONG_LINE}; sleep 0.3; echo warn >&2; exit 3'
    job, status = own.run(command, secrets={"HF_TOKEN": "HF_TOKEN"})
    assert (status.state, status.exit_code) == (JobState.ERROR, 3)
    texts = own.texts(job, follow=True)
    assert texts[:2] == ["hf_canary-'\"$1", "home"]
    assert [len(text) for text in texts[2:]] == [100_003, 4]
    assert own.texts(job, tail=1) == ["warn"]


def test_a_request_for_gpus_is_not_silently_dropped(own: Bench) -> None:
    job = own.build("true", gpus=1)
    with pytest.raises(BackendRejected, match="ignored the request for GPUs"):
        submit(own.sdk, own.store, job)
    assert not own.exists(job)


def test_a_name_in_use(own: Bench) -> None:
    job = own.build("true")
    own.service.cli("create", "--name", job.name, "mini:1")
    with pytest.raises(BackendRejected, match="exists already"):
        submit(own.sdk, own.store, job)


def test_removed_stopped_and_canceled(own: Bench) -> None:
    removed, stopped, canceled = (own.submit("echo up; sleep 60") for _ in range(3))
    own.service.cli("rm", "-f", removed.name)
    own.service.cli("kill", stopped.name)
    assert (own.wait(removed).state, own.look(removed).reason) == (JobState.CANCELED, "Removed")
    assert (own.wait(stopped).state, own.look(stopped).reason) == (JobState.CANCELED, "Stopped")
    assert cancel(own.sdk, own.store, own.store.get(canceled.id)).status.state is JobState.CANCELED
    assert own.texts(canceled) == ["up"]


def test_the_service_may_go_and_come_back(own: Bench) -> None:
    job = own.submit("for i in $(seq 1 40); do echo $i; sleep 0.1; done")
    seen = []
    for line in own.log_stream(job):
        seen += [line.text] if line.kind == "line" else []
        if len(seen) == 10 and line.text == "10":
            own.service.stop(signal.SIGKILL)
            own.service.start()
    assert seen == [str(number) for number in range(1, 41)]
    assert own.wait(job).state is JobState.COMPLETE
