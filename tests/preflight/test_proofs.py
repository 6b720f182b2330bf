"""Mounted paths are proved by the platform whose jobs see them, never by this machine's files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tao_run.errors import UsageError
from tao_run.jobs.request import JobRequest, parse_request
from tao_run.platforms.registry import make
from tao_run.preflight import run
from tests.platforms.lepton.conftest import Desk, clock, desk, lepton, make_desk

__all__ = ["clock", "desk", "lepton", "make_desk"]

ON_GROUP = {"node_group": "h100-pool", "storage_user": "ann"}


def kubernetes(inputs: dict[str, str], **options: object) -> JobRequest:
    data = {"platform": "kubernetes", "image": "x:1", "command": "true", "inputs": inputs}
    return parse_request({**data, "options": {"kubernetes": options}}, "test")


def test_kubernetes_proves_by_claims(tmp_path: Path) -> None:
    platform = make("kubernetes")
    request = kubernetes({}, pvc="data:/data")
    inside = platform.prove_path("/data/coco", request)
    outside = platform.prove_path(str(tmp_path), request)
    assert inside is not None
    assert outside is not None
    assert (inside.status, outside.status) == ("ok", "failed")
    assert "claim data" in inside.detail
    assert "-o pvc=" in outside.fix


def test_lepton_proves_by_the_volume_it_mounts(desk: Desk, tmp_path: Path) -> None:
    request = desk.request(options=ON_GROUP)
    place = desk.platform.place(request, desk.platform.account(request))
    inside = desk.platform.prove_path(f"{place.mount_path}/coco", request)
    outside = desk.platform.prove_path(str(tmp_path), request)
    assert inside is not None
    assert outside is not None
    assert (inside.status, outside.status) == ("ok", "failed")


def test_the_whole_preflight_of_lepton(desk: Desk, tmp_path: Path) -> None:
    request = desk.request(options=ON_GROUP, inputs={"here": str(tmp_path)})
    report = run(request, desk.platform, desk.platform.credentials)
    found = {check.id: check for check in report.checks}
    assert found["lepton.access"].status == "ok"
    assert found["credentials.platform"].status == "ok"
    assert found["path.here"].status == "failed"
    assert not report.passed
    assert desk.lepton.token not in str(report)
    assert "canary" not in str(report)


@pytest.mark.parametrize("name", ["kubernetes", "lepton", "brev"])
def test_check_path_does_not_answer_from_this_machine(name: str, tmp_path: Path) -> None:
    platform = make(name)
    asks: list[Callable[[], object]] = [lambda: platform.check_path(str(tmp_path)), lambda: platform.list_path("/tmp")]
    for ask in asks:
        with pytest.raises(UsageError):
            ask()


def test_local_answers_from_this_machine(tmp_path: Path) -> None:
    platform = make("local")
    assert platform.check_path(str(tmp_path))
    assert not platform.check_path(f"{tmp_path}/gone")
    (tmp_path / "a").write_text("x")
    assert platform.list_path(str(tmp_path)) == [f"{tmp_path}/a"]
