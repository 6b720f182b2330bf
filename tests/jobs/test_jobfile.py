"""Job files: YAML faults by line, specs from files, keys set one by one, the command line on top."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_run.errors import UsageError
from tao_run.jobs.jobfile import lay_over, read_job_file, to_request
from tao_run.jobs.speckeys import parse_key, set_value


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_job_file_becomes_a_request(tmp_path: Path) -> None:
    write(tmp_path / "spec.yaml", "train: {num_epochs: 1, gpus: [0, 1]}\n")
    file = write(
        tmp_path / "job.yaml",
        "\ufeffplatform: local\r\ncommand: echo {config_path}\r\nspec: spec.yaml\r\n"
        "set: {train.num_epochs: 7}\r\nsplits: 3\r\n",
    )
    request, splits = to_request(read_job_file(file), str(file))
    assert request.spec == {"train": {"num_epochs": 7, "gpus": [0, 1]}}
    assert (request.command, splits) == ("echo {config_path}", 3)


def test_the_command_line_wins_and_maps_are_merged() -> None:
    file = {"platform": "local", "nodes": 1, "env": {"A": "1", "B": "1"}, "options": {"local": {"grace": 1}}}
    merged = lay_over(file, {"nodes": 4, "env": {"B": "2"}})
    assert merged == {"platform": "local", "nodes": 4, "env": {"A": "1", "B": "2"}, "options": {"local": {"grace": 1}}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "line"),
        ("- a\n- b\n", "keys and values"),
        ("command: a\ncommand: b\n", "'command' is given twice"),
        ("comand: a\n", "did you mean 'command'"),
        ("nodes: many\n", "nodes"),
        ("command: !!python/object:os.system x\n", "line 1"),
    ],
)
def test_faults_of_a_file_name_the_file(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path / "job.yaml", text)
    with pytest.raises(UsageError) as raised:
        read_job_file(file)
    assert said in raised.value.message
    assert str(file) in raised.value.message


def test_a_missing_file_and_a_missing_spec_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.yaml"):
        read_job_file(tmp_path / "nothing.yaml")
    with pytest.raises(UsageError, match=r"absent\.yaml"):
        read_job_file(write(tmp_path / "job.yaml", "spec: absent.yaml\n"))


@pytest.mark.parametrize(
    ("key", "steps"),
    [("a", ["a"]), ("a.b[0].c", ["a", "b", 0, "c"]), ("a[0][1]", ["a", 0, 1]), ("x-y.z_1", ["x-y", "z_1"])],
)
def test_spec_keys(key: str, steps: list[str | int]) -> None:
    assert parse_key(key) == steps


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "[0]", "a[-1]", "a[x]", "a[0", "a]0["])
def test_bad_spec_keys(key: str) -> None:
    with pytest.raises(UsageError):
        parse_key(key)


def test_set_makes_what_is_missing_and_leaves_the_original() -> None:
    spec = {"a": {"b": [{"c": 1}]}}
    assert set_value(spec, "a.b[1].d", 2) == {"a": {"b": [{"c": 1}, {"d": 2}]}}
    assert set_value({}, "m[0][1]", "x") == {"m": [[None, "x"]]}
    assert spec == {"a": {"b": [{"c": 1}]}}


@pytest.mark.parametrize("key", ["a.b.c", "a[0]", "a.b[0][0]"])
def test_set_refuses_what_does_not_fit(key: str) -> None:
    with pytest.raises(UsageError, match="does not fit"):
        set_value({"a": {"b": [{"c": 1}]}}, key, 1)
