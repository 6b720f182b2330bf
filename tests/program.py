"""`tao-run` as a program on PATH, for tests that run it from shells, Makefiles and scripts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def program_environ(folder: Path) -> dict[str, str]:
    """An environment in which `tao-run` is this checkout's; the program and its state lie in `folder`."""
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "tao-run"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tao_run "$@"\n')
    program.chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"TAO_RUN_STATE_DIR": str(folder / "state"), "PYTHONPATH": str(ROOT), "TAO_RUN_LOCAL_GPUS": ""}
    return {**os.environ, **own, "PATH": path}
