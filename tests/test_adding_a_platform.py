"""A platform that somebody else packages is found by its entry point and works from the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "spool-platform"
PAGE = (ROOT / "docs" / "adding-a-platform.md").read_text()
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "spool"
    directory.mkdir()
    worker = subprocess.Popen([str(EXAMPLE / "worker.sh"), str(directory)], start_new_session=True)
    while not (directory / "alive").exists():
        assert worker.poll() is None
    yield directory
    os.killpg(worker.pid, signal.SIGTERM)
    worker.wait()


@pytest.fixture
def tao(tmp_path: Path) -> Run:
    """tao-run in an environment where the example is installed, as pip would have left it."""
    info = tmp_path / "site" / "tao_run_spool-0.1.0.dist-info"
    info.mkdir(parents=True)
    declared = re.search(
        r'entry-points\."(tao_run\.platforms)"\]\n(\w+) = "(.+)"', (EXAMPLE / "pyproject.toml").read_text()
    )
    assert declared is not None
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tao-run-spool\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[{declared[1]}]\n{declared[2]} = {declared[3]}\n")
    path = os.pathsep.join(map(str, (info.parent, EXAMPLE, ROOT)))
    environ = {**os.environ, "PYTHONPATH": path, "TAO_RUN_STATE_DIR": str(tmp_path / "state")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tao_run", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=60, check=False
        )

    return run


def test_the_commands_of_the_page(tao: Run, spool: Path) -> None:
    commands = re.findall(r"^tao-run (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        done = tao(*command.replace("/tmp/spool", str(spool)).split())
        assert done.returncode == 0, done.stderr
    assert done.stdout == "hello\n"


def test_the_package_is_as_the_page_says() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert block in (EXAMPLE / "pyproject.toml").read_text()


def test_its_options_and_errors_are_treated_as_all_others(tao: Run, spool: Path, tmp_path: Path) -> None:
    wrong = tao("submit", "--platform", "spool", "-o", "directry=/x", "--", "true")
    assert wrong.returncode == 2 and "did you mean directory?" in wrong.stderr
    silent = tao("submit", "--platform", "spool", "-o", f"directory={tmp_path}", "--detach", "--", "true")
    assert silent.returncode == 4 and "no worker is alive" in silent.stdout + silent.stderr
    failed = tao(
        "submit", "--platform", "spool", "-o", f"directory={spool}", "--interval", "0.01", "--", "sh", "-c", "exit 3"
    )
    assert failed.returncode == 1, failed.stderr


def test_every_method_of_the_contract_is_on_the_page() -> None:
    from tao_run.platforms.base import Platform

    methods = [
        name for name in vars(Platform) if not name.startswith("_") and name not in ("clock", "note", "credentials")
    ]
    assert [name for name in methods if f"`{name}" not in PAGE] == []
