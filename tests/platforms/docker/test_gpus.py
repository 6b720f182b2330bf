"""Devices: one consistent wish, and no device twice."""

import pytest

from tao_run.errors import BackendRejected, UsageError
from tao_run.platforms.docker.gpus import (
    GpuRequest,
    cdi_gpus,
    choose,
    conflicts,
    device_requests,
    gpu_request,
    requested_devices,
)
from tao_run.platforms.nvidia import Gpu

TWO = [Gpu("0", "GPU-aaa"), Gpu("1", "GPU-bbb")]


def test_a_number_takes_the_lowest_free_devices() -> None:
    assert choose(GpuRequest(1), {}) == ("0",)
    assert choose(GpuRequest(2), {"0": "a", "2": "b"}) == ("1", "3")
    assert choose(GpuRequest(1), {"0": "a"}, TWO) == ("1",)


def test_a_device_held_under_its_other_name_is_held() -> None:
    assert choose(GpuRequest(1), {"GPU-aaa": "a"}, TWO) == ("1",)
    with pytest.raises(BackendRejected, match="GPU-bbb"):
        choose(GpuRequest(ids=("GPU-bbb",)), {"1": "a"}, TWO)
    with pytest.raises(BackendRejected, match="cannot tell which"):
        choose(GpuRequest(1), {"GPU-aaa": "a"})


@pytest.mark.parametrize(
    ("wish", "held"),
    [
        (GpuRequest(2), {"0": "job-a"}),
        (GpuRequest(1), {"all": "job-a"}),
        (GpuRequest(ids=("0",)), {"0": "job-a"}),
        (GpuRequest(ids=("1",)), {"all": "job-a"}),
        (GpuRequest(ids=("all",)), {"1": "job-a"}),
    ],
)
def test_what_is_held_is_not_given_again(wish: GpuRequest, held: dict[str, str]) -> None:
    with pytest.raises(BackendRejected, match="job-a") as refused:
        choose(wish, held, TWO)
    assert "share_gpus" in refused.value.hint


def test_sharing_is_a_choice_of_the_user() -> None:
    assert choose(GpuRequest(ids=("0",), share=True), {"0": "a"}, TWO) == ("0",)
    assert choose(GpuRequest(1, share=True), {"all": "a"}, TWO) == ("0",)


def test_more_than_the_host_has_is_refused() -> None:
    with pytest.raises(BackendRejected, match="3 of 2 GPUs"):
        choose(GpuRequest(3), {}, TWO)


@pytest.mark.parametrize(("count", "ids"), [(1, ["0", "1"]), (None, ["0", "0"]), (2, ["all", "1"]), (0, ["0"])])
def test_a_contradictory_wish_is_refused(count: int, ids: list[str]) -> None:
    with pytest.raises(UsageError, match="gpus"):
        gpu_request(count, ids, False)


def test_a_wish_in_its_forms() -> None:
    assert not gpu_request(None, None, False).wanted
    assert gpu_request(2, None, False) == GpuRequest(2)
    assert gpu_request(2, ["0", "3"], False) == GpuRequest(0, ("0", "3"))
    assert gpu_request(8, ["all"], False) == GpuRequest(0, ("all",))


def test_conflicts_know_all() -> None:
    assert conflicts(["0"], {"all": "a"}) and conflicts(["all"], {"3": "a"}) and conflicts(["1"], {"1": "a"})
    assert not conflicts(["0"], {"1": "a"}) and not conflicts(["all"], {}) and not conflicts([], {"all": "a"})


def test_native_requests_are_read_back() -> None:
    assert device_requests(("0", "1"))[0]["DeviceIDs"] == ["0", "1"]
    assert "Count" not in device_requests(("0",))[0]
    assert requested_devices({"DeviceRequests": device_requests(("0", "1"))}) == ("0", "1")
    assert requested_devices({"DeviceRequests": device_requests(("all",))}) == ("all",)
    assert requested_devices({"DeviceRequests": None}) == ()


def test_devices_that_the_engine_discovered() -> None:
    info = {"DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}, {"ID": "nvidia.com/gpu=all"}, {"ID": "amd.com/gpu=0"}]}
    assert cdi_gpus(info) == [Gpu("0")]
    assert cdi_gpus({}) == []
