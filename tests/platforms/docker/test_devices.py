"""GPUs on a real dockerd (with a stand-in for NVIDIA's hook): no device goes to two jobs of ours."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tao_run.errors import BackendRejected, TaoRunError
from tao_run.jobs.model import Job
from tao_run.platforms.lifecycle import cancel, submit
from tests.platforms.docker.conftest import Bench
from tests.services.docker import DockerService

SHOW = "echo $NVIDIA_VISIBLE_DEVICES $NUM_GPU_PER_NODE; sleep 60"


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with two GPUs, as nvidia-smi tells."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho '0, GPU-aaa, NVIDIA A100, 81920'\necho '1, GPU-bbb, NVIDIA A100, 81920'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")


@pytest.fixture(autouse=True)
def all_free(bench: Bench) -> None:
    """Devices that other tests hold are given back."""
    held = bench.service.cli("ps", "-aq", "--filter", "label=tao-run.gpus").split()
    if held:
        bench.service.cli("rm", "-f", *held)


def devices(bench: Bench, job: Job) -> list[str]:
    return list(bench.inspect(job)["HostConfig"]["DeviceRequests"][0].get("DeviceIDs") or [])


def test_jobs_side_by_side_get_different_devices(bench: Bench, two_gpus: None) -> None:
    first, second = bench.submit(SHOW, gpus=1), bench.submit(SHOW, gpus=1)
    assert (devices(bench, first), devices(bench, second)) == (["0"], ["1"])
    bench.wait(second, lambda status: bool(bench.texts(second)))
    assert bench.texts(second) == ["1 1"]
    with pytest.raises(BackendRejected, match=first.name):
        bench.submit(SHOW, gpus=1)
    table = bench.sdk.resources(bench.service.host)[1]
    assert [(row[0], row[1], row[4]) for row in table.rows] == [
        ("0", "NVIDIA A100", first.name),
        ("1", "NVIDIA A100", second.name),
    ]
    cancel(bench.sdk, bench.store, bench.store.get(first.id))
    assert devices(bench, bench.submit(SHOW, gpus=1)) == ["0"]


def test_named_devices_and_their_other_names(bench: Bench, two_gpus: None) -> None:
    job = bench.submit(SHOW, gpus=1, options={"gpus": "GPU-bbb"})
    assert devices(bench, job) == ["GPU-bbb"]
    with pytest.raises(BackendRejected, match="GPU 1"):
        bench.submit(SHOW, options={"gpus": "1"}, gpus=1)
    assert devices(bench, bench.submit(SHOW, gpus=1, options={"gpus": "1", "share_gpus": True})) == ["1"]
    assert devices(bench, bench.submit(SHOW, gpus=1)) == ["0"]


def test_all_devices(bench: Bench, two_gpus: None) -> None:
    job = bench.submit("true", gpus=None, options={"gpus": "all"})
    assert bench.inspect(job)["HostConfig"]["DeviceRequests"][0]["Count"] == -1
    bench.wait(job)
    assert devices(bench, bench.submit(SHOW, gpus=1)) == ["0"]
    with pytest.raises(BackendRejected):
        bench.submit("true", gpus=None, options={"gpus": "all"})


def test_gpu_jobs_get_the_limits_that_nvidia_advises(bench: Bench) -> None:
    job = bench.submit("true", gpus=1)
    assert {one["Name"]: one["Hard"] for one in bench.inspect(job)["HostConfig"]["Ulimits"]} == {
        "memlock": -1,
        "stack": 67108864,
    }


def test_of_launches_at_the_same_moment_none_shares_a_device(
    dockerd: DockerService, tmp_path: Path, two_gpus: None
) -> None:
    """Four processes' worth of launchers, two devices: two run, two are told who holds them."""
    benches = [Bench(dockerd, tmp_path / str(number)) for number in range(4)]
    jobs = [bench.build("sleep 60", gpus=1) for bench in benches]
    refused: list[TaoRunError] = []
    gate = threading.Barrier(4)

    def launch(bench: Bench, job: Job) -> None:
        gate.wait()
        try:
            submit(bench.sdk, bench.store, job)
        except TaoRunError as error:
            refused.append(error)

    threads = [threading.Thread(target=launch, args=pair) for pair in zip(benches, jobs, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running = [(bench, job) for bench, job in zip(benches, jobs, strict=True) if bench.exists(job)]
    assert sorted(devices(bench, job)[0] for bench, job in running) == ["0", "1"]
    assert [type(error) for error in refused] == [BackendRejected, BackendRejected]


def test_a_host_whose_driver_fails_is_told_and_nothing_is_left(bench: Bench) -> None:
    fail = bench.service.directory / "nvidia" / "fail"
    fail.touch()
    job = bench.build("true", gpus=1)
    try:
        with pytest.raises(BackendRejected, match="nvidia-container-cli") as refused:
            submit(bench.sdk, bench.store, job)
    finally:
        fail.unlink()
    assert refused.value.hint == "check the driver on the daemon's host: nvidia-smi"
    assert not bench.exists(job)


def test_preflight_counts_devices(bench: Bench, two_gpus: None) -> None:
    request = bench.build("true", gpus=3).request
    check = next(check for check in bench.sdk.check_access(request) if check.id == "docker.gpus")
    assert (check.status, check.detail) == ("failed", "3 GPUs asked for, the host has 2")
    bench.submit("sleep 60", gpus=1)
    check = next(c for c in bench.sdk.check_access(bench.build("true", gpus=1).request) if c.id == "docker.gpus")
    assert (check.status, check.detail) == ("ok", "the engine can give GPUs, 1 of 2 free")
