"""Shell completion: the scripts in the repository are fresh, and complete commands, jobs, platforms and models."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import CommandLine

ROOT = Path(__file__).parents[2]


def words(tao: CommandLine, *typed: str) -> list[str]:
    """What bash would offer after these words."""
    program = "import sys; sys.argv[0] = 'tao-run'; from tao_run.cli.main import main; main()"
    line = " ".join(("tao-run", *typed))
    asked = {"_TAO_RUN_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(typed))}
    environ = {**os.environ, **tao.environ, **asked, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert "Traceback" not in ended.stderr
    return ended.stdout.split()


def test_scripts_are_fresh() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from build_completions import FILES, script_for
    finally:
        sys.path.pop(0)
    for shell, name in FILES.items():
        assert (ROOT / "completions" / name).read_text() == script_for(shell), (
            f"run scripts/build_completions.py ({shell})"
        )


@pytest.mark.parametrize(("shell", "name"), [("bash", "tao-run.bash"), ("zsh", "_tao-run"), ("fish", "tao-run.fish")])
def test_shells_accept_the_scripts(shell: str, name: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    ended = subprocess.run([shell, "-n", ROOT / "completions" / name], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_commands_and_options(tao: CommandLine) -> None:
    assert words(tao, "sta") == ["status"]
    assert "--follow" in words(tao, "logs", "--fo")


def test_jobs_platforms_models(tao: CommandLine) -> None:
    job = tao("submit", "-p", "local", "--no-preflight", "--detach", "--name", "zebra", "--", "true").out.strip()
    assert job in words(tao, "status", job[:4])
    assert any(word.startswith("zebra-") for word in words(tao, "results", "zeb"))
    assert "lepton" in words(tao, "submit", "--platform", "lep")
    assert "dino" in words(tao, "submit", "--model", "din")
