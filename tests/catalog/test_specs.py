"""Merging specs, and numbers as the containers read them."""

from __future__ import annotations

from typing import Any

import pytest

from tao_run.catalog import specs
from tao_run.yamltext import load_yaml


def test_merge_is_deep_for_mappings_and_replaces_lists() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    merged = specs.merge(base, {"a": {"c": [3]}, "d": {"e": 2}})
    assert merged == {"a": {"b": 1, "c": [3]}, "d": {"e": 2}}
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": 1}


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
