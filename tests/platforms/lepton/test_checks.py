"""Preflight and discovery: bad token, wrong workspace and no network told apart; what the workspace offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tao_run.errors import UsageError
from tao_run.jobs.model import Check
from tests.fakes.lepton import Fault, error
from tests.platforms.lepton.conftest import Desk

ON_GROUP = {"node_group": "h100-pool", "storage_user": "ann"}


def by_id(checks: list[Check]) -> dict[str, Check]:
    return {check.id: check for check in checks}


def test_all_is_well(desk: Desk) -> None:
    checks = by_id(desk.platform.check_access(desk.request(options=ON_GROUP)))
    assert {check.status for check in checks.values()} == {"ok"}
    assert "node group h100-pool, shape gpu.8xh100-sxm" in checks["lepton.place"].detail
    assert "/proj/ann" in checks["lepton.mount"].detail


def test_without_a_request_only_access_is_checked(desk: Desk) -> None:
    assert list(by_id(desk.platform.check_access())) == ["lepton.access"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (error(401, times=None), "bad token"),
        (error(403, times=None), "no access"),
        (error(404, times=None), "wrong workspace"),
        (Fault(drop="before", times=None), "cannot be reached"),
        (error(500, times=None), "fault of its own"),
    ],
)
def test_what_is_wrong_with_access_is_told_apart(desk: Desk, fault: Fault, words: str) -> None:
    desk.lepton.faults.add(fault)
    checks = by_id(desk.platform.check_access(desk.request()))
    assert checks["lepton.access"].status == "failed"
    assert words in checks["lepton.access"].detail
    assert checks["lepton.access"].fix
    assert checks["lepton.place"].status == "skipped"


def test_missing_credentials_are_a_failed_check(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(LEPTON_WORKSPACE_ID="", LEPTON_AUTH_TOKEN="")
    check = desk.platform.check_access(desk.request())[0]
    assert (check.status, "LEPTON_WORKSPACE_ID and LEPTON_AUTH_TOKEN" in check.detail) == ("failed", True)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"options": {"node_group": "nope"}}, "no node group"),
        ({"gpus": 3}, "no shape with 3 GPUs"),
        ({"mount": "lustre:/proj/bob", "options": ON_GROUP}, "may not be mounted"),
    ],
)
def test_a_place_that_is_not_there_fails(desk: Desk, more: dict[str, Any], words: str) -> None:
    check = by_id(desk.platform.check_access(desk.request(**more)))["lepton.place"]
    assert (check.status, words in check.detail, bool(check.fix)) == ("failed", True, True)


DEMANDS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"resource_shape": "gpu.8xh100"}, "shape", "failed", "no shape gpu.8xh100"),
    (
        {"resource_shape": "gpu.1xh100-sxm"},
        "shape",
        "failed",
        "8 GPUs per node are asked for, but shape gpu.1xh100-sxm has 1",
    ),
    ({"node_group": "l40s-pool", "resource_shape": "gpu.2xl40s", "priority": "high"}, "queue", "failed", "no quota"),
    ({"mounts": "foo:/:/x"}, "mount", "failed", "no volume 'foo'"),
    ({"mounts": "lustre:/proj/bob:/x"}, "mount", "failed", "may not be mounted"),
]


@pytest.mark.parametrize(("options", "name", "status", "words"), DEMANDS)
def test_what_the_place_does_not_have_fails_before_launch(
    desk: Desk, options: dict[str, Any], name: str, status: str, words: str
) -> None:
    found = desk.platform.check_access(desk.request(options={**ON_GROUP, **options}))
    check = next(item for item in found if item.id == f"lepton.{name}" and item.status != "ok")
    assert (check.status, words in check.detail, bool(check.fix)) == (status, True, True)


def test_what_the_place_has_raises_no_doubt(desk: Desk) -> None:
    fitting = {"resource_shape": "gpu.8xh100-sxm", "priority": "high", "mounts": "lustre:/datasets:/data,scratch:/:/s"}
    request = desk.request(options={**ON_GROUP, **fitting}, nodes=4, results="/data/out")
    assert {(check.status, check.fix) for check in desk.platform.check_access(request)} == {("ok", "")} | {
        (check.status, check.fix) for check in desk.platform.check_access(desk.request(options=ON_GROUP))
    }


def test_more_nodes_than_are_ready_is_a_warning(desk: Desk) -> None:
    check = by_id(desk.platform.check_access(desk.request(options=ON_GROUP, nodes=40)))["lepton.nodes"]
    assert (check.status, "4 ready" in check.detail, bool(check.fix)) == ("ok", True, True)


@pytest.mark.parametrize("results", ["/foo/out", "/mnt/lustrefoo", "/mnt/lustre/../x"])
def test_results_on_no_mount_fail(desk: Desk, results: str) -> None:
    checks = by_id(desk.platform.check_access(desk.request(options=ON_GROUP, results=results)))
    assert checks["lepton.results"].status == "failed"
    fine = by_id(desk.platform.check_access(desk.request(options=ON_GROUP, results="/mnt/lustre/out")))
    assert "lepton.results" not in fine


def test_checks_only_read(desk: Desk) -> None:
    desk.platform.check_access(desk.request(options=ON_GROUP))
    assert {request.method for request in desk.lepton.requests} == {"GET"}


def test_checks_and_submission_discover_once(desk: Desk) -> None:
    request = desk.request(options=ON_GROUP)
    desk.platform.check_access(request)
    assert desk.platform.discovered_results(request) == "/mnt/lustre/results"
    desk.submit(options=ON_GROUP)
    assert len(desk.lepton.asked("GET", "/shapes")) == 1
    desk.submit(options=ON_GROUP, gpus=1)
    assert len(desk.lepton.asked("GET", "/shapes")) == 2


def test_shapes_as_sdk_users_know_them(desk: Desk) -> None:
    shapes = desk.platform.list_resource_shapes()
    found = shapes["h100-pool-abcd/gpu.8xh100-sxm"]
    assert (found["cluster"], found["gpu_type"], found["gpu_count"]) == ("h100-pool", "gpu.8xh100-sxm", 8)
    assert found["instance_type"] == "NVIDIA-H100-80GB-HBM3"
    assert shapes["shared/gpu.a10"]["cluster"] == "shared"


def test_volumes_as_sdk_users_know_them(desk: Desk) -> None:
    volumes = desk.platform.get_volumes(node_group_id="h100-pool")
    assert {"name": "lustre", "from_path": "/lustre", "type": "Lustre", "node_group": "h100-pool-abcd"} in volumes
    assert len(desk.platform.get_volumes()) == len(volumes)
    with pytest.raises(UsageError):
        desk.platform.get_volumes("nope")


def test_permissions_are_a_list_of_prefixes(desk: Desk, make_desk: Callable[..., Desk]) -> None:
    assert desk.platform.get_storage_permissions("lustre", "h100-pool") == ["/proj/<you>", "/datasets"]
    known = make_desk(LEPTON_STORAGE_USER="ann@example.com")
    assert known.platform.get_storage_permissions("lustre", "h100-pool") == ["/proj/ann", "/datasets"]
    assert desk.platform.get_storage_permissions("free", "h100-pool") == ["/"]


def test_the_tables_of_a_workspace(desk: Desk) -> None:
    groups, shapes, volumes = desk.platform.resources()
    assert ("h100-pool", "h100-pool-abcd", "NVIDIA-H100-80GB-HBM3", "4", "yes") in groups.rows
    assert ("h100-pool", "gpu.8xh100-sxm", "8", "NVIDIA-H100-80GB-HBM3", "192", "131072") in shapes.rows
    assert any(row[0] == "(shared)" and row[1] == "gpu.a10" for row in shapes.rows)
    assert volumes.rows == (("h100-pool", "lustre", "Lustre", "/lustre", "/proj/<you>, /datasets"),)
