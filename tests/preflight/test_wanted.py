"""Labelled values of the command line."""

from __future__ import annotations

import pytest

from tao_run.errors import UsageError
from tao_run.preflight.wanted import batch_limits, labelled, labelled_lists


def test_labels() -> None:
    found = labelled(["train=s3://b/a=b", "s3://b/x=y", "/data"], "--path")
    assert found == {"train": "s3://b/a=b", "s3://b/x=y": "s3://b/x=y", "/data": "/data"}


@pytest.mark.parametrize("items", [["=x"], ["x="], [""], ["a=/x", "a=/y"]])
def test_bad_labels(items: list[str]) -> None:
    with pytest.raises(UsageError, match="--path"):
        labelled(items, "--path")


def test_lists_add_up() -> None:
    assert labelled_lists(["a=x, y", "a=z"], "--f", "L=F") == {"a": ("x", "y", "z")}


@pytest.mark.parametrize("item", ["a", "a=", "=x", "a=,"])
def test_bad_lists(item: str) -> None:
    with pytest.raises(UsageError, match="L=F"):
        labelled_lists([item], "--f", "L=F")


def test_batch_limits() -> None:
    assert batch_limits(["a=8,2", "a=4,4"], "--e") == {"a": ((8, 2), (4, 4))}


@pytest.mark.parametrize("item", ["a=8", "a=8,0", "a=x,1", "a=1,2,3", "a=-1,2"])
def test_bad_batch_limits(item: str) -> None:
    with pytest.raises(UsageError):
        batch_limits([item], "--e")
