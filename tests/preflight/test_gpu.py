"""GPU architecture, counts and memory."""

from __future__ import annotations

from typing import Any

import pytest

from tao_run.errors import UsageError
from tao_run.preflight import gpu
from tao_run.preflight.wanted import Wanted


@pytest.mark.parametrize(
    ("text", "sm"),
    [("9.0", "sm_90"), ("90", "sm_90"), ("sm_90", "sm_90"), ("SM90", "sm_90"), ("compute_100", "sm_100"),
     ("sm_103a", "sm_103a"), ("12.0", "sm_120"), ("10.3", "sm_103"), (" sm-80 ", "sm_80")],
)  # fmt: skip
def test_all_forms_of_an_architecture(text: str, sm: str) -> None:
    assert gpu.normal_sm(text) == sm


@pytest.mark.parametrize("text", ["", "h100", "sm_9", "9", "sm_90x", "1.2.3"])
def test_what_is_no_architecture(text: str) -> None:
    with pytest.raises(UsageError):
        gpu.normal_sm(text)


@pytest.mark.parametrize(
    ("allowed", "arch", "fits"),
    [("sm_103a", "sm_103", True), ("sm_103", "sm_103a", True), ("sm_80", "8.0", True), ("sm_100", "sm_103", False)],
)
def test_variants_belong_to_their_family(allowed: str, arch: str, fits: bool) -> None:
    assert gpu.supports([allowed], arch) is fits


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu.8xh100-sxm", ("sm_90", 80)),
        ("gpu:a100:4", ("sm_80", 0)),
        ("NVIDIA-A100-SXM4-80GB", ("sm_80", 80)),
        ("NVIDIA-H100-80GB-HBM3", ("sm_90", 80)),
        ("gh200", ("sm_90", 96)),
        ("NVIDIA L40S", ("sm_89", 48)),
        ("RTX PRO 6000", ("sm_120", 96)),
        ("lustre4", None),
        ("gpu.unknown", None),
    ],
)
def test_gpu_models_by_name(text: str, found: Any) -> None:
    assert gpu.gpus_named(text) == found


def test_options_name_the_target() -> None:
    found = gpu.gpus_of_options({"node_selector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}, 4)
    assert (found.archs, found.count, found.memory_gb) == (("sm_90",), 4, (80.0,) * 4)
    assert gpu.gpus_of_options({"partition": "batch"}, 2) == gpu.Gpus(count=2)


def test_nvidia_smi_is_read() -> None:
    found = gpu.local_gpus(lambda command: "8.0, 81920\n8.0, 40960\n")
    assert (found.archs, found.count, found.memory_gb) == (("sm_80",), 2, (80.0, 40.0))
    assert gpu.local_gpus(lambda command: None) == gpu.Gpus()


def status(checks: list[Any]) -> dict[str, str]:
    return {check.id: check.status for check in checks}


@pytest.mark.parametrize(
    ("archs", "outcome"), [(("sm_90",), "ok"), (("sm_75",), "failed"), (("sm_90", "7.5"), "failed"), ((), "failed")]
)
def test_allow_lists(archs: tuple[str, ...], outcome: str) -> None:
    wanted = Wanted(gpu_arch_allowlist={"m": ("sm_80", "9.0")}, gpu_archs=archs)
    found = gpu.check_architecture(None, wanted, gpu.stated(wanted, gpu.Gpus()))
    assert status(found) == {"gpu.architecture.m": outcome}


def test_an_image_with_known_limits_is_checked_without_being_told() -> None:
    image = "nvcr.io/nvidia/tao/tao-toolkit:7.0.0-cosmos-rl"
    known = gpu.gpus_of_options({"resource_shape": "gpu.8xt4"}, 8)
    assert status(gpu.check_architecture(image, Wanted(), known)) == {"gpu.architecture.image": "failed"}
    assert status(gpu.check_architecture(image, Wanted(), gpu.Gpus())) == {"gpu.architecture.image": "skipped"}
    assert gpu.check_architecture("ubuntu", Wanted(), known) == []


@pytest.mark.parametrize(
    ("wanted", "outcome"),
    [
        (Wanted(gpu_min_count=8, target_gpu_count=8), {"gpu.count": "ok"}),
        (Wanted(gpu_min_count=8, target_gpu_count=4), {"gpu.count": "failed"}),
        (Wanted(gpu_min_count=8), {"gpu.count": "failed"}),
        (Wanted(gpu_min_memory_gb=80, target_gpu_memory_gb=(80.0,)), {"gpu.memory": "ok"}),
        (Wanted(gpu_min_memory_gb=81, target_gpu_memory_gb=(80.0,)), {"gpu.memory": "failed"}),
        (
            Wanted(gpu_min_memory_gb=80, gpu_min_count=2, target_gpu_memory_gb=(80.0,), target_gpu_count=2),
            {"gpu.count": "ok", "gpu.memory": "ok"},
        ),
        (Wanted(gpu_min_memory_gb=80), {"gpu.memory": "failed"}),
        (Wanted(gpu_min_total_memory_gb=160, target_gpu_memory_gb=(80.0, 80.0)), {"gpu.total-memory": "ok"}),
        (Wanted(gpu_min_total_memory_gb=161, target_gpu_memory_gb=(80.0, 80.0)), {"gpu.total-memory": "failed"}),
        (Wanted(target_gpu_memory_gb=(24.0,)), {"gpu.low-vram": "ok"}),
        (Wanted(target_gpu_memory_gb=(24.0,), low_vram_threshold_gb=20), {}),
        (Wanted(), {}),
    ],
)
def test_counts_and_memory(wanted: Wanted, outcome: dict[str, str]) -> None:
    assert status(gpu.check_size(wanted, gpu.stated(wanted, gpu.Gpus()))) == outcome


def test_low_memory_is_a_warning_with_advice() -> None:
    wanted = Wanted(target_gpu_memory_gb=(24.0,))
    [check] = gpu.check_size(wanted, gpu.stated(wanted, gpu.Gpus()))
    assert "batch size" in check.fix
