"""Runs command lines in this process with streams, environment and clock of their own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tao_run.cli.main import run
from tao_run.cli.output import Output
from tao_run.cli.runtime import Runtime
from tao_run.clock import SystemClock


class FastClock(SystemClock):
    """Sleeps a tenth of what it is asked, so that watching is quick but real."""

    def sleep(self, seconds: float) -> None:
        super().sleep(min(seconds / 10, 0.3))


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def _listen_to_ctrl_c() -> None:
    """A shell without job control starts background processes deaf to SIGINT, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class CommandLine:
    """tao-run with a state directory of its own."""

    state: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        base = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {**base, "TAO_RUN_STATE_DIR": str(self.state), "TAO_RUN_LOCAL_GPUS": "", **self.extra}

    def __call__(self, *arguments: str, terminal: bool = False, width: int | None = None) -> Ended:
        out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
        runtime = Runtime(Output(out, err, self.environ, width=width), self.environ, FastClock())
        code = run(list(arguments), runtime)
        return Ended(code, out.getvalue(), err.getvalue())

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """The same as a process of its own."""
        command = [sys.executable, "-m", "tao_run", *arguments]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environ: Mapping[str, str] = {**self.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.Popen(command, env=environ, text=True, preexec_fn=_listen_to_ctrl_c, **{**streams, **more})

    def process(self, *arguments: str) -> Ended:
        """A process of its own, to its end."""
        child = self.start(*arguments)
        out, err = child.communicate(timeout=120)
        return Ended(child.returncode, out, err)
