"""A command line with a state directory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import CommandLine


@pytest.fixture
def tao(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return CommandLine(tmp_path / "state")
