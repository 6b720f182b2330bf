"""Log bytes: however they are cut and whenever the stream breaks, every line arrives once and whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tao_run.platforms.docker.streams import Assembler, Piece, Seen, frames, terminal
from tao_run.platforms.stamps import NANOSECONDS, PIECE, from_datetime, parse_stamp, to_datetime

BEGIN = 1_767_225_600 * NANOSECONDS  # 2026-01-01


def stamp(at: int) -> bytes:
    moment = datetime.fromtimestamp(at // NANOSECONDS, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % NANOSECONDS:09d}Z ".encode()


def pieces(lines: list[bytes], stream: int = 1) -> list[Piece]:
    """What the daemon stores of lines: one entry each, or several of 16 KiB."""
    found = []
    for number, line in enumerate(lines):
        data = line + b"\n"
        cuts = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
        found += [Piece(stream, BEGIN + number * 1000 + part, cut) for part, cut in enumerate(cuts)]
    return found


def multiplexed(stored: list[Piece]) -> bytes:
    payloads = [(piece.stream, stamp(piece.at) + piece.data) for piece in stored]
    return b"".join(bytes([s, 0, 0, 0]) + len(p).to_bytes(4, "big") + p for s, p in payloads)


def raw(stored: list[Piece]) -> bytes:
    return b"".join(stamp(piece.at) + piece.data for piece in stored)


def cut(data: bytes, seed: int) -> Iterator[bytes]:
    dice = random.Random(seed)
    while data:
        size = dice.choice([1, 2, 7, 1000, 50_000])
        yield data[:size]
        data = data[size:]


def assembled(stored: list[Piece]) -> list[str]:
    lines = Assembler()
    return [line.text for piece in stored for line in lines.add(piece)] + [line.text for line in lines.rest()]


LINES = [
    b"first",
    b"",
    "größe 例".encode(),
    b"x" * (3 * PIECE + 5),
    b"y" * PIECE,
    b"2026-01-01T00:00:00Z no stamp",
    b"end",
]


@pytest.mark.parametrize("seed", range(6))
def test_frames_in_any_cut(seed: int) -> None:
    stored = pieces(LINES)
    assert list(frames(cut(multiplexed(stored), seed))) == stored
    assert assembled(stored) == [line.decode() for line in LINES]


@pytest.mark.parametrize("seed", range(6))
def test_a_terminal_in_any_cut(seed: int) -> None:
    stored = pieces(LINES)
    assert list(terminal(cut(raw(stored), seed))) == stored


def test_a_terminal_of_an_engine_that_does_not_cut_lines() -> None:
    data = stamp(BEGIN) + b"z" * (5 * PIECE) + b"\r\n" + stamp(BEGIN + 1) + b"end\r\n"
    assert assembled(list(terminal([data]))) == ["z" * (5 * PIECE), "end"]


def test_half_a_frame_at_the_end_is_no_line() -> None:
    data = multiplexed(pieces([b"one", b"two"]))
    assert assembled(list(frames([data[:-1]]))) == ["one"]


def test_stdout_and_stderr_do_not_run_into_each_other() -> None:
    out = Piece(1, BEGIN, b"a" * PIECE), Piece(1, BEGIN + 2, b"A\n")
    stored = [out[0], Piece(2, BEGIN + 1, b"warning\n"), out[1], Piece(2, BEGIN + 3, b"no end")]
    assert assembled(stored) == ["warning", "a" * PIECE + "A", "no end"]


@given(
    st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"").rstrip(b"\r")), max_size=20), st.data()
)
@settings(max_examples=60, deadline=None)
def test_any_bytes_in_any_cut(lines: list[bytes], data: st.DataObject) -> None:
    stored = pieces(lines)
    wire = multiplexed(stored)
    at = data.draw(st.integers(0, len(wire)))
    assert assembled(list(frames([wire[:at], wire[at:]]))) == [line.decode("utf-8", "replace") for line in lines]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_reading_again_neither_loses_nor_repeats(breaks: list[int], seed: int) -> None:
    """A log with equal stamps, equal texts and two streams a little out of order; the stream breaks anywhere."""
    dice = random.Random(seed)
    log, last = [], {1: 0, 2: 0}
    for number in range(60):
        stream = dice.choice([1, 2])
        last[stream] = max(last[stream], BEGIN + number // 3 * NANOSECONDS // 4 + dice.randrange(-9, 9))
        log.append(Piece(stream, last[stream], dice.choice([b"a\n", b"b\n"])))
    seen, got = Seen(), []
    for length in [*breaks, 60]:
        since = seen.rewind()
        got += [piece for piece in [one for one in log if one.at >= since][:length] if seen.is_new(piece)]
    assert got == log


@pytest.mark.parametrize("step", [1, NANOSECONDS // 10, 3 * NANOSECONDS])
def test_what_a_daemon_repeats_after_a_rotation_is_not_new(step: int) -> None:
    log = [Piece(1 + number % 2, BEGIN + number * step, b"same\n") for number in range(40)]
    seen = Seen(rotating=True)
    assert [piece for piece in [*log[:30], *log[5:30], *log[10:]] if seen.is_new(piece)] == log


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    log = [Piece(1, BEGIN + at * NANOSECONDS, b"same\n") for at in (1, 2, 90, 91, 10, 11, 12)]
    seen = Seen()
    assert [piece for piece in log if seen.is_new(piece)] == log


def test_a_rotated_log_is_noticed() -> None:
    seen = Seen()
    seen.rewind()
    assert seen.is_new(Piece(1, BEGIN, b"old\n"))
    seen.rewind()
    assert seen.is_new(Piece(1, BEGIN + NANOSECONDS, b"new\n"))
    assert not seen.joined
    seen.rewind()
    assert not seen.is_new(Piece(1, BEGIN + NANOSECONDS, b"new\n"))
    assert seen.joined


def test_a_stream_that_began_at_its_tail_does_not_bring_older_lines() -> None:
    seen = Seen()
    seen.begin(Piece(1, BEGIN + 5, b"last\n"))
    assert seen.rewind() == BEGIN + 5


def test_stamps() -> None:
    assert parse_stamp(b"2026-01-01T00:00:00.000000001Z x") == (BEGIN + 1, 31)
    assert parse_stamp(b"2026-01-01T00:00:00.5Z x") == (BEGIN + NANOSECONDS // 2, 23)
    assert parse_stamp(b"2026-01-01T01:00:00+01:00 x") == (BEGIN, 26)
    assert parse_stamp(b"no stamp") is None
    assert parse_stamp(b"2026-99-99T99:99:99Z said by the job") is None
    moment = datetime(2026, 1, 1, 0, 0, 0, 123456, timezone.utc)
    assert to_datetime(from_datetime(moment)) == moment
