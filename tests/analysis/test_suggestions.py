"""What the suggestions tell people to type exists: commands, their options, and options of platforms."""

from __future__ import annotations

import re

import pytest

from tao_run.analysis.ruleset import Rule, packaged_rules
from tao_run.cli.main import COMMANDS, _load
from tao_run.platforms.registry import names, platform_class

TEXTS = [(rule, rule.do) for rule in packaged_rules()]


def _flags(command: str) -> set[str]:
    loaded = _load(COMMANDS[command][0], command)
    return {flag for parameter in loaded.params for flag in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize(("rule", "text"), TEXTS, ids=lambda item: getattr(item, "id", ""))
def test_commands_and_flags_exist(rule: Rule, text: str) -> None:
    for command, rest in re.findall(r"`tao-run ([a-z-]+)([^`]*)`", text):
        assert command in COMMANDS, rule.id
        flags = set(re.findall(r"(--[a-z][a-z-]+)", rest)) - {"--format"}
        assert flags <= _flags(command), f"{rule.id}: {command} has no {flags - _flags(command)}"


def test_options_of_platforms_exist() -> None:
    known = {field for name in names() for field in platform_class(name).options_model().model_fields}
    for rule, text in TEXTS:
        named = set(re.findall(r"-o (\w+)=", text))
        assert named <= known, f"{rule.id}: no platform has {named - known}"
