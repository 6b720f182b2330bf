"""The page docs/lepton.md against the code: every option and every native state is there."""

from __future__ import annotations

import re
from pathlib import Path

from tao_run.platforms.lepton.options import Options
from tao_run.platforms.lepton.states import NATIVE_STATES

PAGE = (Path(__file__).parents[3] / "docs" / "lepton.md").read_text(encoding="utf-8")


def test_every_option_is_documented_and_no_other() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.split("## Options")[1].split("## Python")[0], re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented == set(Options.model_fields)


def test_every_native_state_is_documented() -> None:
    table = PAGE.split("## Status")[1]
    assert [native for native in NATIVE_STATES if native != "UNK" and native not in table] == []
