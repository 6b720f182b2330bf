"""The shared mount, with jobs that really run: inputs come from it, outputs go to it first, then to the bucket."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tao_run.jobs.model import Job, JobState, LogQuery
from tao_run.platforms.lifecycle import observe
from tests.fakes.lepton import FakeLepton
from tests.platforms.lepton.conftest import Desk
from tests.services.s3 import S3Service, s3

__all__ = ["s3"]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root"),
    pytest.mark.service,
]
ON_GROUP = {"node_group": "h100-pool", "storage_user": "ann@example.com"}


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    return tmp_path / "lustre"


@pytest.fixture
def lepton(volume: Path) -> Iterator[FakeLepton]:
    with FakeLepton(volumes={"lustre": volume}) as server:
        yield server


def ended(desk: Desk, job: Job) -> tuple[JobState, list[str]]:
    while not (seen := observe(desk.platform, desk.store, [desk.store.get(job.id)])[0]).status.state.terminal:
        pass
    return seen.status.state, [line.text for line in desk.platform.logs(seen, LogQuery())]


@pytest.fixture
def stocked(make_desk: Callable[..., Desk], s3: S3Service, monkeypatch: pytest.MonkeyPatch) -> tuple[Desk, str]:
    """A desk whose results go to a bucket that holds one input."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    bucket = s3.bucket("lepton")
    s3.put(bucket, {"coco/train.json": b"first\n"})
    return make_desk(**s3.host_env(), S3_BUCKET_NAME=bucket), bucket


def train(desk: Desk, bucket: str, container_path: Path, command: str, **more: Any) -> Job:
    inputs = {str(container_path): f"s3://{bucket}/coco/train.json"}
    return desk.submit(command, inputs=inputs, options=ON_GROUP, **more)


def test_inputs_stay_on_the_mount_for_later_jobs(
    stocked: tuple[Desk, str], s3: S3Service, volume: Path, tmp_path: Path
) -> None:
    desk, bucket = stocked
    path = tmp_path / "container" / "train.json"
    state, lines = ended(desk, train(desk, bucket, path, f"cat {path}"))
    assert state is JobState.COMPLETE and "first" in lines, lines
    kept = volume / "proj/ann" / bucket / "coco/train.json"
    assert kept.read_bytes() == b"first\n"
    inode = kept.stat().st_ino
    state, lines = ended(desk, train(desk, bucket, path, f"cat {path}", nodes=2))
    assert state is JobState.COMPLETE and lines.count("first") == 2, lines
    assert kept.stat().st_ino == inode, "it was fetched again"


def test_outputs_lie_on_the_mount_and_in_the_bucket_where_the_record_says(
    stocked: tuple[Desk, str], s3: S3Service, volume: Path, tmp_path: Path
) -> None:
    desk, bucket = stocked
    command = "echo weights > {results_dir}/model.pth"
    job = train(desk, bucket, tmp_path / "container" / "train.json", command, outputs=["results_dir"])
    state, lines = ended(desk, job)
    assert state is JobState.COMPLETE, lines
    assert job.results_dir == f"s3://{bucket}/results/{job.id}"
    assert s3.get(bucket, f"results/{job.id}/model.pth") == b"weights\n"
    assert (volume / "proj/ann" / bucket / "results" / job.id / "model.pth").read_text() == "weights\n"
