"""check_path and list_path on this machine's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_run.credentials import Credentials
from tao_run.errors import UsageError
from tao_run.storage import check_path, list_path

NOBODY = Credentials({})


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("x")
    assert check_path(str(tmp_path), NOBODY)
    assert check_path(f"file://{tmp_path}/a.txt", NOBODY)
    assert not check_path(f"{tmp_path}/missing", NOBODY)
    assert not check_path(f"{tmp_path}/a.txt/below-a-file", NOBODY)
    assert list_path(str(tmp_path), NOBODY) == [f"{tmp_path}/a.txt", f"{tmp_path}/sub/"]
    assert list_path(f"{tmp_path}/a.txt", NOBODY) == [f"{tmp_path}/a.txt"]
    assert list_path(f"{tmp_path}/missing", NOBODY) == []


@pytest.mark.parametrize("path", ["hf_model://a/b", "ngc://a/b:1", "https://example.com/x"])
def test_what_only_the_job_can_see(path: str) -> None:
    for function in (check_path, list_path):
        with pytest.raises(UsageError, match="only seen when the job fetches it"):
            function(path, NOBODY)


@pytest.mark.parametrize("path", ["/" + "x" * 300, "/a\0b"])
def test_impossible_names_are_one_line(path: str) -> None:
    with pytest.raises(UsageError, match="cannot look at"):
        check_path(path, NOBODY)
