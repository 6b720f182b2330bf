"""One pod's log, line by line: stamps, pieces of long lines, cursors."""

from __future__ import annotations

import pytest

from tao_run.platforms.kubernetes.podlog import split_stamp, without_stamps
from tao_run.platforms.stamps import PIECE, to_datetime

STAMP = "2026-11-30T18:59:16.085276198Z "


@pytest.mark.parametrize(
    ("raw", "nanoseconds", "text"),
    [
        ("2026-01-02T03:04:05.123456789Z hello", 123456789, "hello"),
        ("2026-01-02T03:04:05.5Z  two spaces", 500_000_000, " two spaces"),
        ("2026-01-02T03:04:05Z ", 0, ""),
    ],
)
def test_stamps_of_any_length(raw: str, nanoseconds: int, text: str) -> None:
    at, found = split_stamp(raw)
    assert at is not None
    assert (at % 10**9, found) == (nanoseconds, text)
    assert to_datetime(at).isoformat().startswith("2026-01-02T03:04:05")


@pytest.mark.parametrize("raw", ["", "no stamp at all in this line", "2026-99-99T99:99:99.1Z x", "rpc error: code = 5"])
def test_a_line_without_a_stamp_is_left_alone(raw: str) -> None:
    assert split_stamp(raw) == (None, raw)


def test_stamps_inside_a_long_line_are_removed() -> None:
    line = "x" * PIECE + STAMP + "y" * PIECE + STAMP + "end"
    assert without_stamps(line) == "x" * PIECE + "y" * PIECE + "end"


def test_a_long_line_of_a_newer_kubelet_is_left_alone() -> None:
    line = "x" * 3 * PIECE + STAMP + "said by the job"
    assert without_stamps(line) == line


def test_pieces_are_counted_in_bytes() -> None:
    line = "€" * 5461 + "x" + STAMP + "end"
    assert without_stamps(line) == "€" * 5461 + "x" + "end"
