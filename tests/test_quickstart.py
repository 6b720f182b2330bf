"""The quick start of the README, with the packages that the tests have: from an empty state to results in a bucket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_quick_start_runs_a_real_tool_on_a_real_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "tao-run"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tao_run "$@"\n')
    program.chmod(0o755)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "TAO_RUN_LOCAL_GPUS": ""}
    ended = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "quickstart.py")],
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for said in ("VALIDATION PASSED", "CONVERSION COMPLETE", "Complete", "converted/meta.json", "tao-run.json"):
        assert said in ended.stdout
    assert "Traceback" not in ended.stderr
