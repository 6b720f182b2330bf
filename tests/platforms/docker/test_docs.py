"""The commands of docs/docker.md work as they are written (submissions as dry-runs), and its tables are complete."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tao_run.platforms.docker.states import STATES
from tests.cli.harness import CommandLine
from tests.services.docker import DockerService

PAGE = (Path(__file__).parents[3] / "docs" / "docker.md").read_text()
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("command", COMMANDS)
def test_command(dockerd: DockerService, tmp_path: Path, command: str) -> None:
    """On a machine with these directories; preflight may say that this engine has no GPU."""
    tao = CommandLine(tmp_path, {"DOCKER_HOST": dockerd.host})
    for name in ("data", "data/cache"):
        (tmp_path / name).mkdir()
    program, *arguments = shlex.split(command.replace("/data", f"{tmp_path}/data"))
    assert program == "tao-run"
    if arguments[0] == "submit":
        arguments.insert(1, "--dry-run")
    ended = tao(*arguments)
    assert ended.code == (4 if arguments[0] == "preflight" else 0), ended.out + ended.err


def test_every_state_is_described() -> None:
    podmans = {"configured", "initialized", "stopped", "unknown", "exited", "dead"}
    missing = [state for state in STATES if state not in PAGE and state not in podmans]
    assert missing == []


def test_a_whole_life_on_the_command_line(dockerd: DockerService, tmp_path: Path) -> None:
    tao = CommandLine(tmp_path / "state", {"DOCKER_HOST": dockerd.host, "HF_TOKEN": "hf_canary_0123456789"})
    common = ("--platform", "docker", "--image", "py:1", "--gpus", "0", "--network", "host", "--secret", "HF_TOKEN")
    command = "echo value of $HF_TOKEN; exit 3"
    submitted = tao("submit", *common, "--detach", "--results", str(tmp_path / "runs"), "--", "bash", "-c", command)
    assert submitted.code == 0, submitted.err
    job = submitted.out.strip()
    assert tao("watch", job).code == 1
    assert "value of" in tao("logs", job).out
    told = tao("status", job, "--format", "json").json
    assert "hf_canary" not in submitted.out + submitted.err + str(told)
    assert "exit code 3" in tao("analyze", job).out
    assert tao("cancel", job, "--yes", "--delete").code in (0, 1)
    assert dockerd.cli("ps", "-aq", "--filter", f"label=tao-run.job-id={job}") == ""
