"""Choosing a node group, shape, volume and path: exactly what was asked for, or an error that lists the choices."""

from __future__ import annotations

from typing import Any

import pytest

from tao_run.errors import UsageError
from tao_run.platforms.lepton.discovery import (
    SHARED,
    NodeGroup,
    Shape,
    Volume,
    allowed_prefixes,
    choose_group,
    choose_shape,
    choose_volume,
    read_group,
    read_shape,
)
from tests.fakes.lepton.workspace import default_node_groups, default_shapes

H100 = read_group(default_node_groups()[0])
SHAPES = [read_shape(row) for row in default_shapes()[H100.id]]


def group_with(*volumes: Volume) -> NodeGroup:
    return NodeGroup("g", "g", volumes=volumes)


@pytest.mark.parametrize("wanted", ["h100-pool", "h100-pool-abcd"])
def test_a_group_goes_by_name_or_id(wanted: str) -> None:
    groups = [read_group(row) for row in default_node_groups()]
    assert choose_group(groups, wanted).id == "h100-pool-abcd"


def test_an_unknown_group_lists_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        choose_group([H100], "h100")
    assert "h100-pool (h100-pool-abcd)" in caught.value.hint


def test_two_groups_of_one_name_need_the_id() -> None:
    twins = [NodeGroup("a-1", "a"), NodeGroup("a-2", "a")]
    with pytest.raises(UsageError, match=r"a \(a-1\), a \(a-2\)"):
        choose_group(twins, "a")
    assert choose_group(twins, "a-2").id == "a-2"


@pytest.mark.parametrize(("gpus", "shape"), [(8, "gpu.8xh100-sxm"), (1, "gpu.1xh100-sxm"), (0, "cpu.small")])
def test_the_shape_has_exactly_the_gpus(gpus: int, shape: str) -> None:
    assert choose_shape(SHAPES, gpus, H100) == shape


def test_no_bigger_shape_is_taken_instead() -> None:
    with pytest.raises(UsageError) as caught:
        choose_shape(SHAPES, 4, H100)
    assert "node group h100-pool has no shape with 4 GPUs" in caught.value.message
    assert "gpu.8xh100-sxm (8 GPU)" in caught.value.hint


def test_two_fitting_shapes_are_the_users_choice() -> None:
    with pytest.raises(UsageError) as caught:
        choose_shape([Shape("b", 1), Shape("a", 1), Shape("c", 2)], 1, SHARED)
    assert caught.value.hint.endswith("a, b")
    assert "the shared capacity" in caught.value.message


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["data", "my-filestore", "fast-Lustre"], "fast-Lustre"),
        (["data", "my-filestore"], "my-filestore"),
        (["data", "other"], "data"),
    ],
)
def test_lustre_before_filestore_before_the_first(names: list[str], chosen: str) -> None:
    volume = choose_volume(group_with(*(Volume(name, "nfs", "/") for name in names)))
    assert volume is not None and volume.name == chosen


def test_a_nodes_own_disk_is_no_shared_storage() -> None:
    assert choose_volume(group_with(Volume("lustre-cache", "local", "/raid"))) is None
    assert choose_volume(group_with(Volume("scratch", "local", "/raid")), "scratch") is not None


def test_an_unknown_volume_lists_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        choose_volume(H100, "lustra")
    assert caught.value.hint == "there are: scratch, lustre"


def rule(prefix: str, users: list[str] | None = None, policy: str = "") -> dict[str, Any]:
    return {"path_prefix": prefix, "allowed_users": users, "subfolder_policy": policy}


@pytest.mark.parametrize(
    ("rules", "user", "prefixes"),
    [
        ([], "", ["/"]),
        ([rule("/proj", [], "by_user")], "ann@example.com", ["/proj/ann"]),
        ([rule("/proj", [], "by_user")], "", []),
        ([rule("/data", ["*"]), rule("/proj", [], "by_user")], "ann", ["/proj/ann", "/data"]),
        ([rule("/a", ["bob@example.com"]), rule("/b", ["ann@example.com"])], "ann@example.com", ["/b"]),
        ([rule("/a", ["ann@other.com"])], "ann@example.com", []),
        ([rule("/a", ["ann@other.com"])], "ann", ["/a"]),
        ([rule("/a", ["bob@example.com"])], "", []),
        ([rule("a/b/", None)], "", ["/a/b"]),
    ],
)
def test_allowed_prefixes_are_those_of_this_user(rules: list[Any], user: str, prefixes: list[str]) -> None:
    assert allowed_prefixes(rules, user) == prefixes


def test_documents_with_holes_are_read() -> None:
    assert read_group({"metadata": {"id": "x"}, "spec": {"volumes": None}, "status": None}).volumes == ()
    assert read_shape({"metadata": None, "spec": {"name": "s"}}) == Shape("s", 0)
