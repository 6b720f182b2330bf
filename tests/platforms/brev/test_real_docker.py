"""The scripts on an instance against a real docker engine: the same jobs, docker's own answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_run.jobs.model import JobState
from tao_run.platforms.lifecycle import cancel
from tests.conformance.hostile import VALUES
from tests.fakes.brev import FakeBrev
from tests.platforms.brev.conftest import CANARY, Desk
from tests.services.docker import DockerService, dockerd

__all__ = ["dockerd"]
pytestmark = pytest.mark.service
ON_BOX = {"gpu_type": None, "instance": "box"}


@pytest.fixture
def real(dockerd: DockerService, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    cloud = FakeBrev(tmp_path / "real", dockerd.host)
    for name in ("PATH", "HOME"):
        monkeypatch.setenv(name, cloud.environ[name])
    cloud.add("box", "g6e.12xlarge")
    desk.cloud = cloud
    yield desk


def test_environment_and_secrets_arrive_untouched(real: Desk) -> None:
    show = "; ".join(f'printf %s "${name}" | base64 -w0; echo' for name in [*VALUES, "HF_TOKEN"])
    job = real.submit(show, options=ON_BOX, gpus=0, env=dict(VALUES), secrets={"HF_TOKEN": "HF_TOKEN"})
    assert real.wait(job).status.state is JobState.COMPLETE
    expected = [*VALUES.values(), CANARY]
    assert real.texts(job) == [base64.b64encode(value.encode()).decode() for value in expected]


def test_exit_codes_and_images(real: Desk) -> None:
    assert real.wait(real.submit("exit 42", options=ON_BOX, gpus=0)).status.exit_code == 42
    seen = real.wait(real.submit("true", options=ON_BOX, gpus=0, image="127.0.0.1:1/missing:1")).status
    assert (seen.state, seen.reason) == (JobState.ERROR, "ImagePullFailed")
    assert seen.message


def test_long_lines_and_order(real: Desk) -> None:
    job = real.submit(
        "head -c 100000 /dev/zero | tr '\\0' x; echo; for i in $(seq 1 3000); do echo $i; done", options=ON_BOX, gpus=0
    )
    real.wait(job)
    texts = real.texts(job)
    assert len(texts[0]) == 100000 and texts[1:] == [str(number) for number in range(1, 3001)]
    assert real.texts(job, tail=2) == ["2999", "3000"]
    assert real.texts(job, follow=True) == texts


def test_a_command_of_any_length_arrives(real: Desk) -> None:
    job = real.submit("# " + "x" * 200_000 + "\necho end", options=ON_BOX, gpus=0)
    assert real.wait(job).status.state is JobState.COMPLETE
    assert real.texts(job) == ["end"]


def test_cancel_and_time_limit(real: Desk) -> None:
    job = real.submit("trap 'echo asked; exit 5' TERM; echo up; while :; do sleep 0.1; done", options=ON_BOX, gpus=0)
    real.wait(job, lambda seen: "up" in (real.texts(seen) if seen.status.state is JobState.RUNNING else []))
    assert cancel(real.sdk, real.store, real.store.get(job.id)).status.state is JobState.CANCELED
    assert real.texts(job) == ["up", "asked"]
    limited = real.submit("exec sleep 300", options=ON_BOX, gpus=0, max_time=1)
    assert real.wait(limited).status.reason == "DeadlineExceeded"


def test_gpus_are_given_by_their_ids(real: Desk) -> None:
    job = real.submit('echo "$NVIDIA_VISIBLE_DEVICES"', options=ON_BOX, gpus=2)
    seen = real.wait(job)
    assert seen.status.state is JobState.COMPLETE, seen.status
    assert real.texts(job) == ["0,1"]
