"""The quick start of the README, with the packages that the tests have: from an empty state to results in a bucket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.program import program_environ

ROOT = Path(__file__).parents[1]


def test_the_quick_start_runs_a_real_tool_on_a_real_dataset(tmp_path: Path) -> None:
    environ = program_environ(tmp_path)
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
