"""Logs of any shape are searched completely, and memory does not grow with them."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tao_run.analysis import Analyzer, analyze_log
from tao_run.analysis.ruleset import packaged_rules
from tao_run.analysis.scan import LONGEST, Matcher, Prefilter, batches, blocks
from tao_run.jobs.model import LogLine

OOM = "torch.OutOfMemoryError: CUDA out of memory."


class Repeated(io.RawIOBase):
    """A stream of `count` times the same block, without holding it all."""

    def __init__(self, block: bytes, count: int, end: bytes) -> None:
        self._blocks = self._all(block, count, end)

    def _all(self, block: bytes, count: int, end: bytes) -> Iterator[bytes]:
        for _ in range(count):
            yield block
        yield end

    def read(self, size: int = -1) -> bytes:
        return next(self._blocks, b"")


def test_memory_stays_flat_on_a_large_log_full_of_errors() -> None:
    block = b"".join(b"step %d [rank%d]: ConnectTimeout to 10.0.0.%d loss: nan\n" % (n, n % 64, n) for n in range(5000))
    analyzer = Analyzer()
    tracemalloc.start()
    analyzer.read_file(Repeated(block, 100, OOM.encode() + b"\n"))  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert analyzer.lines == 500_001
    assert analyzer.findings["cuda-oom"].first[0].number == 500_001
    found = analyzer.conclude()
    assert found is not None and found.rule == "cuda-oom"
    assert analyzer.findings["connection-refused"].latest == 500_000
    assert peak < 40 * 1024 * 1024


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_a_line_is_found_however_the_file_is_read(size: int) -> None:
    log = f"one\ntwo\r\nthree\n{OOM}\nlast".encode()
    analyzer = Analyzer()
    for block in blocks(io.BytesIO(log), size):
        analyzer.read_file(io.BytesIO(block))
    assert "cuda-oom" in analyzer.findings


def test_what_a_progress_bar_left_on_the_same_line_is_not_shown() -> None:
    found = analyze_log(io.BytesIO(b"Epoch 0: 1%\rEpoch 0: 2%\r" + OOM.encode() + b"\rEpoch 0: 3%\n"))
    assert found is not None
    assert found.evidence[0].text == OOM


def test_a_line_of_10_megabytes_is_searched_and_cut() -> None:
    found = analyze_log(io.BytesIO(b"x" * 6_000_000 + OOM.encode() + b"y" * 4_000_000))
    assert found is not None
    assert OOM in found.evidence[0].text
    assert len(found.evidence[0].text) <= LONGEST


def test_bad_utf8_is_no_obstacle() -> None:
    found = analyze_log(io.BytesIO(b"\xff\xfe " + OOM.encode() + b" \x80\n"))
    assert found is not None and found.rule == "cuda-oom"


def test_lines_of_a_stream_keep_who_wrote_them() -> None:
    analyzer = Analyzer()
    analyzer.read_lines(
        LogLine(OOM if n == 4321 else f"line {n}", rank=n % 3, replica=f"w{n % 3}") for n in range(9000)
    )
    hit = analyzer.findings["cuda-oom"].first[0]
    assert (hit.number, hit.node_rank, hit.replica) == (4322, 1, "w1")


WORDS = st.sampled_from(
    [*sorted(Matcher(packaged_rules()).by_literal), "ok", "12", " ", "[rank3]:", "Error", "é", "\t"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(WORDS, max_size=4).map("".join), max_size=30))
def test_the_prefilter_loses_no_line_that_holds_a_literal(lines: list[str]) -> None:
    literals = list(Matcher(packaged_rules()).by_literal)
    block, _ = next(batches(LogLine(line) for line in lines or ["x"]))
    found = {item.index for item in Prefilter(literals).candidates(block)}
    holding = {n for n, line in enumerate(lines) if any(literal in line for literal in literals)}
    assert found == holding
