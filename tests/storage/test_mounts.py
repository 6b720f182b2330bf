"""A path is proved by the mount it lies in, by whole names."""

from __future__ import annotations

import pytest

from tao_run.storage.mounts import proof_by_mounts, within


@pytest.mark.parametrize(
    ("path", "root", "inside"),
    [
        ("/data", "/data", True),
        ("/data/x", "/data/", True),
        ("/data1/x", "/data", False),
        ("/data/../etc", "/data", False),
        ("/anything", "/", True),
    ],
)
def test_within(path: str, root: str, inside: bool) -> None:
    assert within(path, root) is inside


def test_the_deepest_mount_is_named() -> None:
    check = proof_by_mounts("/data/coco/x", {"/data": "claim a", "/data/coco": "claim b"}, "mount it")
    assert (check.status, check.fix) == ("ok", "")
    assert "claim b" in check.detail


def test_what_is_mounted_is_listed_when_nothing_fits() -> None:
    check = proof_by_mounts("/scratch/x", {"/data": "claim a"}, "mount it")
    assert (check.status, check.fix) == ("failed", "mount it")
    assert "/data (claim a)" in check.detail
