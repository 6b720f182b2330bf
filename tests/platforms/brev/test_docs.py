"""The commands of docs/brev.md work as they are written (submissions as dry-runs), and its tables are complete."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tao_run.platforms.brev.states import INSTANCE_STATES, START_FAILURES
from tests.cli.harness import CommandLine
from tests.platforms.brev.conftest import Desk

PAGE = (Path(__file__).parents[3] / "docs" / "brev.md").read_text()
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("command", COMMANDS)
def test_command(desk: Desk, command: str) -> None:
    desk.cloud.add("my-box")
    tao = CommandLine(desk.store.directory, {**desk.values, **{k: desk.cloud.environ[k] for k in ("PATH", "HOME")}})
    program, *arguments = shlex.split(command)
    assert program == "tao-run"
    if arguments[0] == "submit":
        arguments.insert(1, "--dry-run")
    ended = tao(*arguments)
    assert ended.code == 0, ended.out + ended.err


def test_every_reason_is_described() -> None:
    reasons = [*START_FAILURES.values(), *(known[1] for known in INSTANCE_STATES.values() if known)]
    missing = [reason for reason in reasons if reason not in PAGE and reason not in ("NoDocker", "InstanceDeleted")]
    assert missing == []
