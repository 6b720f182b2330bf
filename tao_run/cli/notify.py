"""Tells a command of the user's about each change: the job as JSON on its stdin."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

from tao_run.cli.output.plain import to_data
from tao_run.cli.watchrows import WatchRow

PATIENCE = 60.0  # seconds that the command may take


class Notifier:
    """Runs the command of `--on-change` in a shell. What goes wrong with it is said and does not end the watch."""

    def __init__(self, command: str | None, note: Callable[[str], None]) -> None:
        self._command = command
        self._note = note

    def changed(self, row: WatchRow) -> None:
        """A job has changed."""
        if self._command is None:
            return
        text = json.dumps(to_data(row), ensure_ascii=False) + "\n"
        try:
            ended = subprocess.run(
                ["/bin/sh", "-c", self._command], input=text, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            self._note(f"--on-change: the command took longer than {PATIENCE:g} s for {row.name} and was stopped")
        except OSError as error:
            self._note(f"--on-change: {error.strerror}")
        else:
            if ended.returncode:
                self._note(f"--on-change: the command ended with {ended.returncode} for {row.name}")
