"""examples/Makefile: every step once, an interrupted make goes on, a failure stops it with its cause."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.program import program_environ

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed here")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return program_environ(tmp_path)


def make(tmp_path: Path, environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-f", str(ROOT / "examples" / "Makefile"), "INTERVAL=0.01", *arguments]
    return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=240, check=False)


def test_all_steps_run_once(tmp_path: Path, environ: dict[str, str]) -> None:
    first = make(tmp_path, environ, "all")
    assert first.returncode == 0, first.stdout + first.stderr
    jobs = {path.name: path.read_text() for path in (tmp_path / "runs").glob("*.job")}
    assert set(jobs) == {"train.job", "evaluate.job", "export.job"}
    again = make(tmp_path, environ, "all")
    assert again.returncode == 0 and "submit" not in again.stdout
    assert {path.name: path.read_text() for path in (tmp_path / "runs").glob("*.job")} == jobs


def test_a_failing_step_stops_make_and_says_why(tmp_path: Path, environ: dict[str, str]) -> None:
    ended = make(tmp_path, environ, "all", "TRAIN=-c 'echo \"CUDA out of memory\"; exit 1'")
    assert ended.returncode == 2
    assert "GPU memory exhausted" in ended.stdout
    assert not (tmp_path / "runs" / "evaluate.job").exists()


def test_a_sweep(tmp_path: Path, environ: dict[str, str]) -> None:
    ended = make(tmp_path, environ, "sweep")
    assert ended.returncode == 0, ended.stdout + ended.stderr
