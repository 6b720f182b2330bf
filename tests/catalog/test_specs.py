"""Paths into nested specs, merging, and settings from the command line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tao_run.catalog import specs
from tao_run.catalog.yamltext import load_yaml
from tao_run.errors import UsageError

NAME = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
PATH = st.lists(st.tuples(NAME, st.sampled_from(["", "[0]", "[0][0]"])), min_size=1, max_size=4).map(
    lambda parts: ".".join(name + index for name, index in parts)
)


@given(PATH, st.integers())
def test_what_is_put_is_found(path: str, value: int) -> None:
    spec: dict[str, Any] = {}
    specs.put(spec, path, value)
    assert specs.get(spec, path) == value


def test_put_makes_mappings_and_lists_and_replaces_mandatory_marks() -> None:
    spec: dict[str, Any] = {"data": "???", "other": {"keep": 1}}
    specs.put(spec, "data.sources[0].dir", "/a")
    specs.put(spec, "data.sources[1].dir", "/b")
    specs.put(spec, "other.new", [1])
    assert spec == {"data": {"sources": [{"dir": "/a"}, {"dir": "/b"}]}, "other": {"keep": 1, "new": [1]}}


@pytest.mark.parametrize("path", ["a.b", "a[0]", "c.d", "l[2]", "l.x"])
def test_a_path_that_does_not_fit_is_an_error(path: str) -> None:
    spec: dict[str, Any] = {"a": 1, "c": [1], "l": [{}]}
    with pytest.raises(UsageError):
        specs.put(spec, path, 0)


@pytest.mark.parametrize("path", ["", ".", "a..b", "[0]", "a[x]", "a[0", "a.", "a b[-1]"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(UsageError, match="is not a path"):
        specs.split_path(path)


def test_merge_is_deep_for_mappings_and_replaces_lists() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    merged = specs.merge(base, {"a": {"c": [3]}, "d": {"e": 2}})
    assert merged == {"a": {"b": 1, "c": [3]}, "d": {"e": 2}}
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=10", 10),
        ("a=1e-4", 0.0001),
        ("a=1.5", 1.5),
        ("a=[1, x]", [1, "x"]),
        ("a={b: 2}", {"b": 2}),
        ("a=true", True),
        ("a=", None),
        ("a='10'", "10"),
        ("a=s3://b/c=d", "s3://b/c=d"),
        ("a=${results_dir}/train", "${results_dir}/train"),
    ],
)
def test_settings_are_read_as_yaml(text: str, value: Any) -> None:
    assert specs.parse_setting(text) == ("a", value)


@pytest.mark.parametrize("text", ["a", "=1", "a=[", "a..b=1"])
def test_bad_settings_say_what_is_wrong(text: str) -> None:
    with pytest.raises(UsageError):
        specs.parse_setting(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("-1e-5", -1e-5),
        (".5", 0.5),
        ("1.", 1.0),
        ("7", 7),
        ("1e", "1e"),
        ("e5", "e5"),
        ("7.0.0", "7.0.0"),
        (".inf", float("inf")),
        ("1:30", 90),
    ],
)
def test_numbers_are_read_as_the_container_reads_them(text: str, value: Any) -> None:
    found = load_yaml(text)
    assert found == value
    assert type(found) is type(value)
