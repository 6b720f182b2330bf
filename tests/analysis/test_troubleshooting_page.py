"""docs/troubleshooting.md says what the rules say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tao_run.analysis.ruleset import packaged_rules

ROOT = Path(__file__).parents[2]


def test_the_page_is_fresh() -> None:
    script = ROOT / "scripts" / "build_troubleshooting.py"
    ended = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_rule_is_on_the_page_and_no_placeholder_is() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert all(f"`{rule.id}`" in text and rule.title in text for rule in packaged_rules())
    assert "|}" not in text and "{path" not in text
