"""What `submit` asks on a terminal: in this order, nothing that was said, and nothing before it is clear what runs."""

from __future__ import annotations

import os
import pty
import re
from pathlib import Path

import pytest

from tests.cli.harness import CommandLine

QUESTIONS = {
    "platform": r"platform \(",
    "watch": r"watch it until it has ended\?",
    "interval": r"minutes between looks",
    "image": r"use image \S+\?",
    "credentials": r"credentials\.platform: not set: LEPTON_WORKSPACE_ID, LEPTON_AUTH_TOKEN",
}


def converse(tao: CommandLine, answers: str, *arguments: str) -> tuple[int, list[str]]:
    """Runs `submit` with a terminal; how it ended, and what was asked or told, in order."""
    ours, theirs = pty.openpty()
    child = tao.start("submit", *arguments, stdin=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, answers.encode())
    child.communicate(timeout=60)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    text = shown.decode()
    found = {name: match.start() for name, pattern in QUESTIONS.items() if (match := re.search(pattern, text))}
    return child.returncode, sorted(found, key=lambda name: found[name])


MODEL = ("--model", "dino", "--action", "train", "--results", "/results")


def test_everything_is_asked_in_its_order(tao: CommandLine) -> None:
    code, asked = converse(tao, "lepton\n\n\n\n", *MODEL)
    assert (code, asked) == (4, ["platform", "watch", "interval", "image", "credentials"])


@pytest.mark.parametrize(
    ("said", "answers", "asked"),
    [
        (["--detach"], "lepton\n\n", ["platform", "image", "credentials"]),
        (["--interval", "1"], "lepton\n\n\n", ["platform", "watch", "image", "credentials"]),
        (["--watch", "--interval", "1", "--yes"], "lepton\n", ["platform", "credentials"]),
        ([], "lepton\nn\n\n", ["platform", "watch", "image", "credentials"]),
        (["--platform", "lepton"], "\n", ["image", "credentials"]),
        (["--platform", "lepton", "--yes"], "", ["credentials"]),
    ],
)
def test_what_was_said_is_not_asked(tao: CommandLine, said: list[str], answers: str, asked: list[str]) -> None:
    assert converse(tao, answers, *MODEL, *said) == (4, asked)


def test_a_dry_run_has_nothing_to_watch(tao: CommandLine) -> None:
    assert converse(tao, "local\n", "--dry-run", "--", "true") == (0, ["platform"])


def test_nothing_is_asked_before_it_is_clear_what_runs(tao: CommandLine, tmp_path: Path) -> None:
    assert converse(tao, "local\n", "--image", "ubuntu") == (2, [])
