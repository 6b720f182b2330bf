"""Job files and values that are almost right: one clear line, never a fault of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_run.errors import UsageError
from tao_run.jobs.jobfile import read_job_file, to_request
from tao_run.jobs.request import parse_request
from tao_run.yamltext import load_value


def said_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        to_request(read_job_file(path), "job.yaml")
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("name: 2026-99-99", "month must be"),
        ("name: !!int abc", "cannot be read"),
        ("name: !!timestamp abc", "cannot be read"),
        (f"nodes: {'1' * 5000}", "cannot be read"),
        ("? [a, b]\n: c", "a key must be a word"),
        ("args: &a {b: *a}", "recursive"),
        ("name: " + "[" * 3000, "nesting"),
        ("name: \0", "control characters"),
        ('env: {A: "x\\0y"}', "env.A holds a NUL"),
        ('options: {local: {cwd: "/tmp\\0"}}', "options.local.cwd holds a NUL"),
        ("env: {A: yes}", "env.A: yes, no, dates and nothing are no text: put it in quotes"),
        ("env: {A: 2026-01-01}", "env.A: yes, no, dates and nothing are no text"),
        ("env: {A: }", "env.A: yes, no, dates and nothing are no text"),
        ("env: {1: x}", "env.1: "),
        ("nodes: true", "nodes: a number is needed"),
        ("splits: yes", "splits: a number is needed"),
        ("command: [echo, yes]", "command.1: yes, no"),
        ("command: 5", "command: Input should be a valid string; command: Input should be a valid list"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(tmp_path: Path, line: str, said: str) -> None:
    message = said_of(tmp_path, line + ("" if line.startswith("command") else "\ncommand: echo x") + "\n")
    assert said in message
    assert "function-" not in message
    assert message.count("; ") <= 1


def test_keys_with_nothing_behind_them_are_not_said(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: echo x\nenv:\nnodes:\noptions: {local: }\nsplits:\n")
    request, splits = to_request(read_job_file(path), "job.yaml")
    assert (request.env, request.nodes, request.options, splits) == ({}, 1, {"local": {}}, None)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(UsageError, match=r"command\[1\] is not UTF-8 text"):
        parse_request({"command": ["echo", "caf\udce9"]})


def test_merge_keys_of_anchors_are_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: echo x\nenv: &base {A: 1, B: 2}\nlabels: {<<: *base, B: 3}\n")
    request, _ = to_request(read_job_file(path), "job.yaml")
    assert request.labels == {"A": "1", "B": "3"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-4", 1e-4), ("[1, 2]", [1, 2]), ("2026-99-99", "2026-99-99"), ("&a [*a]", "&a [*a]"), ("a: b: c", "a: b: c"),
     ("1" * 5000, "1" * 5000), ("*", "*"), ("!!int x", "!!int x"), ("a & b", "a & b")],
)  # fmt: skip
def test_values_of_the_command_line_that_only_look_like_yaml_stay_text(text: str, value: object) -> None:
    assert load_value(text) == value
