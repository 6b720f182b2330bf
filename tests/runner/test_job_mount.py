"""The shared mount: downloaded once for all ranks and jobs, never stale, never half."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.runner.conftest import Container
from tests.services.s3 import S3Service


@pytest.fixture
def mount(cloud: Container) -> Path:
    path = cloud.root / "mount"
    path.mkdir()
    return path


def fetched(container: Container) -> int:
    data = json.loads((container.results / "tao-run.json").read_text())
    return sum(entry["fetched_files"] for entry in data["inputs"])


def run(cloud: Container, mount: Path, uri: str, command: str = "cat {d}/*", **more: object) -> str:
    ran = cloud.run(command=command, inputs={"d": uri}, mount=str(mount), **more)
    assert ran.code == 0, ran.log
    return ran.out


def test_a_hit_downloads_nothing_and_a_change_downloads_that_file(cloud: Container, s3: S3Service, mount: Path) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"d/1": b"1", "d/2": b"2"})
    assert run(cloud, mount, f"s3://{bucket}/d") == "12"
    assert (mount / bucket / "d" / "1").read_bytes() == b"1"
    assert fetched(cloud) == 2
    assert run(cloud, mount, f"s3://{bucket}/d") == "12"
    assert fetched(cloud) == 0
    s3.put(bucket, {"d/2": b"X"})  # same size, another ETag
    assert run(cloud, mount, f"s3://{bucket}/d") == "1X"
    assert fetched(cloud) == 1


def test_a_cut_or_edited_file_is_fetched_again(cloud: Container, s3: S3Service, mount: Path) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"d/1": b"111", "d/2": b"222"})
    run(cloud, mount, f"s3://{bucket}/d")
    (mount / bucket / "d" / "1").write_bytes(b"11")
    (mount / bucket / "d" / "2").write_bytes(b"zzz")
    os.utime(mount / bucket / "d" / "2", (1, 1))
    assert run(cloud, mount, f"s3://{bucket}/d") == "111222"


def test_data_put_there_by_other_means_is_taken_if_it_is_the_same(cloud: Container, s3: S3Service, mount: Path) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"d/1": b"111", "d/2": b"222"})
    (mount / bucket / "d").mkdir(parents=True)
    (mount / bucket / "d" / "1").write_bytes(b"111")
    (mount / bucket / "d" / "2").write_bytes(b"999")
    assert run(cloud, mount, f"s3://{bucket}/d") == "111222"
    assert fetched(cloud) == 1


def test_refresh_fetches_everything_once(cloud: Container, s3: S3Service, mount: Path) -> None:
    import time

    bucket = s3.bucket()
    s3.put(bucket, {"d/1": b"1"})
    run(cloud, mount, f"s3://{bucket}/d")
    since = time.time() + 0.01
    time.sleep(0.05)
    run(cloud, mount, f"s3://{bucket}/d", refresh=since)
    assert fetched(cloud) == 1
    run(cloud, mount, f"s3://{bucket}/d", refresh=since)  # another rank of the same job
    assert fetched(cloud) == 0


def test_without_keys_the_mount_is_used_as_it_is(cloud: Container, s3: S3Service, mount: Path) -> None:
    bucket = s3.bucket()
    (mount / bucket / "d").mkdir(parents=True)
    (mount / bucket / "d" / "1").write_bytes(b"old")
    cloud.env.update(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    ran = cloud.run(command="cat {d}/1", inputs={"d": f"s3://{bucket}/d"}, mount=str(mount))
    assert ran.out == "old"
    assert "the copy on the mount is used as it is" in ran.log


def test_results_on_the_mount_are_the_inputs_of_the_next_job(cloud: Container, s3: S3Service, mount: Path) -> None:
    bucket = s3.bucket()
    cloud.env["TAO_RESULTS_ROOT"] = ""
    first = cloud.run(
        command="cd {results_dir} && mkdir train && head -c 20000000 /dev/zero > train/m.pth && pwd",
        mount=str(mount),
        results_uri=f"s3://{bucket}/results/job1",
    )
    assert first.out == f"{mount}/{bucket}/results/job1\n"
    assert len(s3.get(bucket, "results/job1/train/m.pth")) == 20_000_000
    ran = cloud.run(command="wc -c < {m}", inputs={"m": f"s3://{bucket}/results/job1/train/m.pth"}, mount=str(mount))
    assert ran.out == "20000000\n"
    assert "already here" in ran.log


def test_ranks_and_jobs_download_once(cloud: Container, s3: S3Service, mount: Path) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {f"d/{i:03}": b"x" * 1000 for i in range(300)})
    containers = [Container(cloud.root / f"node{i}", dict(cloud.env)) for i in range(4)]
    counts = []

    def one(number: int) -> None:
        containers[number].root.mkdir()
        run(containers[number], mount, f"s3://{bucket}/d", command="ls {d} | wc -l")
        counts.append(fetched(containers[number]))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [0, 0, 0, 300]


def test_a_killed_download_is_never_taken_for_a_finished_one(
    cloud: Container, s3: S3Service, mount: Path, tmp_path: Path
) -> None:
    bucket, size = s3.bucket(), 120 << 20
    body = os.urandom(1 << 20) * 120
    s3.put(bucket, {"d/big": body, **{f"d/{i:03}": bytes([i]) * 50_000 for i in range(100)}})
    process = cloud.start(command="true", inputs={"d": f"s3://{bucket}/d"}, mount=str(mount))
    cloud.wait_for(lambda: bool(list(mount.glob(".tao-run/tmp/*/[0-9]*"))))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    big = mount / bucket / "d" / "big"
    assert not big.exists() or big.stat().st_size == size
    for path in (mount / bucket).rglob("*"):
        assert path.is_dir() or path.stat().st_size in (50_000, size)
    assert list(mount.glob(".tao-run/tmp/*"))
    run(cloud, mount, f"s3://{bucket}/d", command="true")
    assert big.read_bytes() == body
    assert list(mount.glob(".tao-run/tmp/*")) == []  # what the dead process left is gone too
    assert list(mount.glob(".tao-run/locks/*")) == []


def test_stopping_while_inputs_come_ends_at_once(cloud: Container, s3: S3Service, mount: Path) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"big": os.urandom(1 << 20) * 200})
    process = cloud.start(command="echo began", inputs={"d": f"s3://{bucket}/big"}, mount=str(mount))
    cloud.wait_for(lambda: bool(list(mount.glob(".tao-run/tmp/*/0"))))
    process.send_signal(signal.SIGTERM)
    ran = cloud.finish(process, timeout=20)
    assert (ran.code, ran.out) == (143, "")
    assert not (mount / bucket / "big").exists()
    assert list(mount.glob(".tao-run/tmp/*")) == []


def test_waiting_for_a_lock_can_be_stopped(cloud: Container, s3: S3Service, mount: Path) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"d/1": b"1"})
    from tao_run.runner.lock import hold
    from tao_run.runner.stage import Stage
    from tao_run.runner.stop import Stop
    from tao_run.runner.uris import parse

    path = Stage(str(mount), lambda: None, Stop())._lock_path(parse(f"s3://{bucket}/d"))  # type: ignore[arg-type, return-value]
    with hold(path, Stop(), lambda: None):
        process = cloud.start(command="true", inputs={"d": f"s3://{bucket}/d"}, mount=str(mount))
        assert process.stderr is not None
        while "waiting" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert cloud.finish(process, timeout=20).code == 143
