"""Annotation files: fields, counts, forms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tao_run.errors import UsageError
from tao_run.preflight import records


@pytest.mark.parametrize(
    ("data", "name", "count"),
    [
        ([{"a": 1}, {"a": 2}], "x.json", 2),
        ({"annotations": [{"a": 1}], "info": {}}, "x.json", 1),
        ({"samples": [{"a": 1}] * 3}, "x.json", 3),
        ({"a": 1}, "x.json", 1),
    ],
)
def test_forms_of_records(data: Any, name: str, count: int) -> None:
    assert len(records.records_of(json.dumps(data).encode(), name)) == count


def test_json_lines() -> None:
    assert records.records_of(b'{"a": 1}\n\n{"a": 2}\n', "x.jsonl") == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"3", b'{"data": []}', b"\xff\xfe"])
def test_no_records_is_one_line(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"x\.json"):
        records.records_of(data, "x.json")


def test_fields_of_a_sample() -> None:
    rows = [{"id": 1, "video": "a"}] * 3 + [{"id": 2}]
    assert records.check_fields("train", rows, ["id", "video"], limit=3).status == "ok"
    found = records.check_fields("train", rows, ["id", "video"], limit=20)
    assert found.status == "failed"
    assert "record 3 lacks video" in found.detail


def test_many_faults_are_counted_not_listed() -> None:
    found = records.check_fields("t", [1] * 9, ["a"], limit=20)
    assert "record 0 is not an object" in found.detail
    assert "and 4 more" in found.detail


@pytest.mark.parametrize(
    ("count", "batch", "shards", "outcome"), [(64, 8, 8, "ok"), (64, 9, 8, "failed"), (7, 1, 8, "failed")]
)
def test_batches(count: int, batch: int, shards: int, outcome: str) -> None:
    assert records.check_batch("train", count, batch, shards).status == outcome
