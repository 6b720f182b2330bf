"""Logs are exact, complete, followed through disconnects, and end with the job."""

from __future__ import annotations

import threading
import time

import pytest

from tao_run.errors import UsageError
from tao_run.jobs.model import JobState, LogLine, LogQuery
from tests.conformance.bench import Bench

ODD_LINES = [
    "  leading",
    "trailing  ",
    "",
    "[red]no markup[/red] [rank0] Epoch[3]",
    "tab\there",
    "ünïcödé 日本 🚀",
    "100%",
]


def test_lines_are_exact_and_in_order(bench: Bench) -> None:
    job, _ = bench.run("for i in $(seq 1 1500); do echo line $i; done")
    assert bench.texts(job) == [f"line {number}" for number in range(1, 1501)]


def test_odd_lines_arrive_as_they_are(bench: Bench) -> None:
    job, _ = bench.run(["printf", "%s\n", *ODD_LINES])
    assert bench.texts(job) == ODD_LINES


def test_standard_error_is_part_of_the_log(bench: Bench) -> None:
    job, _ = bench.run("echo out; sleep 0.3; echo err >&2; sleep 0.3; echo out again")
    assert bench.texts(job) == ["out", "err", "out again"]


def test_a_last_line_without_newline_is_kept(bench: Bench) -> None:
    job, _ = bench.run("echo one; printf two")
    assert bench.texts(job) == ["one", "two"]


def test_a_job_that_says_nothing_has_an_empty_log(bench: Bench) -> None:
    job, _ = bench.run("true")
    assert bench.texts(job) == []


@pytest.mark.parametrize("count", [0, 1, 3, 500])
def test_tail_is_the_last_lines_in_all(bench: Bench, count: int) -> None:
    job, _ = bench.run("for i in $(seq 1 40); do echo $i; done")
    wanted = [str(number) for number in range(1, 41)]
    assert bench.texts(job, tail=count) == (wanted[-count:] if count else [])


def test_lines_of_replicas_are_labelled_and_in_time_order(bench: Bench) -> None:
    if not bench.rig.multi_node:
        pytest.skip("one node only")
    job, _ = bench.run("sleep $NODE_RANK.5; echo first of $NODE_RANK; sleep 2; echo second of $NODE_RANK", nodes=2)
    lines = bench.lines(job)
    assert [(line.rank, line.text) for line in lines] == [
        (0, "first of 0"),
        (1, "first of 1"),
        (0, "second of 0"),
        (1, "second of 1"),
    ]
    assert [line.text for line in bench.lines(job, tail=1)] == ["second of 1"]
    assert {line.rank for line in bench.lines(job, replica="1")} == {1}


def test_an_unknown_replica_is_an_error(bench: Bench) -> None:
    job, _ = bench.run("echo hello")
    with pytest.raises(UsageError):
        bench.lines(job, replica="17")


def test_follow_shows_lines_while_the_job_runs_and_ends_with_it(bench: Bench) -> None:
    job = bench.submit("for i in 1 2 3 4; do echo $i; sleep 1; done; exit 5")
    seen: list[tuple[str, float]] = []
    for line in bench.platform.logs(bench.store.get(job.id), LogQuery(follow=True)):
        if line.kind == "line":
            seen.append((line.text, time.monotonic()))
    assert [text for text, _ in seen] == ["1", "2", "3", "4"]
    assert seen[-1][1] - seen[0][1] > 0.5, "the lines came all at once, at the end"
    assert bench.wait(job).exit_code == 5


def test_follow_of_an_ended_job_shows_all_and_ends(bench: Bench) -> None:
    job, _ = bench.run("for i in $(seq 1 100); do echo $i; done")
    assert bench.texts(job, follow=True) == [str(number) for number in range(1, 101)]


def test_follow_with_tail_begins_at_the_tail(bench: Bench) -> None:
    job = bench.submit("for i in $(seq 1 20); do echo $i; done; sleep 3; echo end")
    bench.wait_for_lines(job, 20)
    assert bench.texts(job, follow=True, tail=2) == ["19", "20", "end"]


def test_follow_survives_a_disconnect_without_loss_or_repeat(bench: Bench) -> None:
    job = bench.submit("for i in $(seq 1 60); do echo line $i; sleep 0.1; done")
    seen: list[LogLine] = []
    cut = False
    for line in bench.platform.logs(bench.store.get(job.id), LogQuery(follow=True)):
        if line.kind == "line":
            seen.append(line)
        if len(seen) == 15 and not cut:
            cut = True
            if not bench.rig.cut_streams():
                pytest.skip("there is no connection to cut")
    assert [line.text for line in seen] == [f"line {number}" for number in range(1, 61)]


def test_a_follower_can_leave_while_the_job_goes_on(bench: Bench) -> None:
    job = bench.submit("echo one; sleep 4; echo two")
    stream = bench.platform.logs(bench.store.get(job.id), LogQuery(follow=True))
    assert next(line.text for line in stream if line.kind == "line") == "one"
    threading.Thread(target=getattr(stream, "close", lambda: None)).start()
    assert bench.wait(job).state is JobState.COMPLETE
    assert bench.texts(job) == ["one", "two"]
