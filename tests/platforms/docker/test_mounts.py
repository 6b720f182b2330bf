"""Mounts: forms, modes, one source with several targets, and what is refused."""

from pathlib import Path

import pytest

from tao_run.errors import UsageError
from tao_run.platforms.docker.mounts import Mount, check_mounts, parse_mount, to_host_config


def test_one_source_may_have_several_targets() -> None:
    mounts = [parse_mount("/data:/a", True), parse_mount("/data:/b:ro", True)]
    native = to_host_config(mounts)["Mounts"]
    assert [(one["Source"], one["Target"], one["ReadOnly"]) for one in native] == [
        ("/data", "/a", False),
        ("/data", "/b", True),
    ]


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/data:/data", Mount("/data", "/data")),
        ("/data/:/x/../y/", Mount("/data", "/y")),
        ("cache:/home/me/.cache:rw", Mount("cache", "/home/me/.cache")),
        ("/d:/d:ro,rslave", Mount("/d", "/d", True, "rslave")),
        ("/d:/d:Z", Mount("/d", "/d", relabel="Z")),
    ],
)
def test_the_forms_of_a_mount(text: str, mount: Mount) -> None:
    assert parse_mount(text, local=False) == mount


def test_a_named_volume_is_no_bind() -> None:
    assert parse_mount("cache:/c", True).to_api()["Type"] == "volume"
    assert parse_mount("/cache:/c", True).to_api()["Type"] == "bind"


def test_selinux_labels_go_to_binds() -> None:
    assert to_host_config([Mount("/d", "/e", True, relabel="z")]) == {"Binds": ["/d:/e:ro,z"]}


@pytest.mark.parametrize("text", ["", "/data", "/data:", ":/x", "/data:x", "/data:/x:rx", "data/sub:/x", "/a:/b:ro:rw"])
def test_a_bad_mount_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="mount"):
        parse_mount(text, local=True)


def test_a_relative_source_is_this_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_mount("./data:/data", local=True).source == str(tmp_path / "data")
    with pytest.raises(UsageError, match="another host"):
        parse_mount("./data:/data", local=False)


def test_two_mounts_with_one_target_and_a_missing_source_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="target /x"):
        check_mounts([Mount("/a", "/x"), Mount("/b", "/x")], local=False)
    with pytest.raises(UsageError, match="does not exist"):
        check_mounts([Mount(str(tmp_path / "none"), "/x")], local=True)
    check_mounts([Mount(str(tmp_path / "none"), "/x")], local=False)
