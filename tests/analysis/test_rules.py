"""Every rule is shown by a realistic log or by what a backend says, and every wording by a true line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from tao_run.analysis import Analyzer, facts
from tao_run.analysis.ruleset import Pattern, Rule, packaged_rules
from tests.analysis.builders import FIXTURES, analyze_fixture, evidence

RULES = packaged_rules()
FILES = sorted(FIXTURES.iterdir())
LINES = yaml.safe_load((Path(__file__).parent / "lines.yaml").read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_fixture_is_explained_by_the_rule_it_is_named_after(path: Path) -> None:
    analysis = analyze_fixture(path)
    assert analysis is not None
    assert analysis.rule == path.name.split(".")[0]
    assert analysis.evidence, "the lines that it is concluded from are kept"
    assert "{" not in analysis.means.replace("${", "") and "|" not in analysis.suggestion


def test_every_rule_has_a_fixture() -> None:
    assert {path.name.split(".")[0] for path in FILES} == set(RULES.rules)


@pytest.mark.parametrize("rule_id", sorted(LINES))
def test_each_true_line_makes_its_rule_fire(rule_id: str) -> None:
    for line in LINES[rule_id].get("log", ()):
        analyzer = Analyzer()
        analyzer.read_file(io.BytesIO(line.encode() + b"\n"))
        assert rule_id in analyzer.findings, line
    for fact in LINES[rule_id].get("backend", ()):
        assert any(pattern.fact_details(fact) is not None for pattern in RULES[rule_id].patterns("backend")), fact


def _shown_lines() -> tuple[list[str], list[str]]:
    logs, told = [], []
    for path in FILES:
        if path.suffix == ".yaml":
            known = evidence(yaml.safe_load(path.read_text()))
            told += [hit.text for hit, _ in facts.backend_hits(known, started=False)]
            logs += [line.text for line in known.log_tail]
        else:
            logs += path.read_text().splitlines()
    for entry in LINES.values():
        logs += entry.get("log", [])
        told += entry.get("backend", [])
    return logs, told


LOGS, TOLD = _shown_lines()


def _is_shown(pattern: Pattern, where: str) -> bool:
    in_logs = where != "backend" and any(pattern.details(line) is not None for line in LOGS)
    return in_logs or (where != "log" and any(pattern.fact_details(fact) is not None for fact in TOLD))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_pattern_of_a_rule_is_shown_by_some_line(rule: Rule) -> None:
    for where, patterns in (("text", rule.text), ("log", rule.log), ("backend", rule.backend)):
        for pattern in patterns:
            assert _is_shown(pattern, where), f"{rule.id}: nothing shows {pattern.has} {pattern.match or ''}"


def test_outranks_names_rules_that_exist_and_has_no_circle() -> None:
    for rule in RULES:
        assert set(rule.outranks) <= set(RULES.rules), rule.id
        for other in rule.outranks:
            assert rule.id not in RULES[other].outranks, f"{rule.id} and {other} outrank each other"


def test_a_program_error_is_never_called_worth_a_retry() -> None:
    assert [rule.id for rule in RULES if rule.retryable and rule.err_class != "ERR_INFRA"] == []


def test_every_text_for_people_is_one_that_can_be_read() -> None:
    for rule in RULES:
        assert rule.title[0].isupper() and not rule.title.endswith("."), rule.id
        assert rule.means.strip().endswith((".", "|see the line}.")), rule.id
        assert len(rule.do) > 20, rule.id
