"""Groups: recorded whole, submitted a few at a time, completed later if some could not be submitted."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tao_run.errors import BackendRejected, BackendUnreachable, CredentialRefused
from tao_run.jobs.model import JobState, NodeEvent
from tao_run.jobs.retry import retry_group
from tao_run.jobs.splits import IN_FLIGHT, GroupIncomplete, member_of, submit_group
from tests.fakes.scripted import Life
from tests.jobs.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def ids(count: int) -> list[str]:
    return [str(n) for n in range(count)]


def test_the_split_id_is_filled_in_wherever_the_request_says_what_runs(bench: Bench) -> None:
    request = bench.request(
        command=["train", "--part={split_id}", "{other}"],
        spec={"data": {"part": "p{split_id}", "n": 3, "all": ["{split_id}"]}},
        env={"PART": "{split_id}"},
        inputs={"data.train": "s3://b/part-{split_id}"},
    )
    member = member_of(request, "7")
    assert member.command == ["train", "--part=7", "{other}"]
    assert member.spec == {"data": {"part": "p7", "n": 3, "all": ["7"]}}
    assert (member.env["PART"], member.inputs["data.train"].uri, member.split_id) == ("7", "s3://b/part-7", "7")


def test_one_group_one_job_for_each_split(bench: Bench) -> None:
    jobs = submit_group(bench.platform, bench.store, bench.request(name="sweep"), ids(20))
    assert [job.split_id for job in jobs] == ids(20)
    assert len({job.group for job in jobs}) == 1
    assert [job.id for job in bench.store.in_group("sweep")] == [
        job.id for job in sorted(jobs, key=lambda j: (j.created_at, j.id))
    ]
    assert len(bench.backend.jobs) == 20


def test_no_more_than_so_many_are_submitted_at_the_same_time(bench: Bench) -> None:
    inside, most = [0], [0]
    counting, gate = threading.Lock(), threading.Barrier(IN_FLIGHT)

    def slow(operation: str) -> None:
        step = {"launch": 1, "launch-reply": -1}.get(operation, 0)
        with counting:
            inside[0] += step
            most[0] = max(most[0], inside[0])
        if step == 1:
            gate.wait(timeout=10)

    bench.backend.fault = slow
    submit_group(bench.platform, bench.store, bench.request(), ids(IN_FLIGHT * 3))
    assert most[0] == IN_FLIGHT


def test_a_partial_failure_leaves_a_group_that_can_be_completed(bench: Bench) -> None:
    refuses = {"now": True}
    bench.backend.fault = lambda operation: (
        BackendRejected("over quota") if refuses["now"] and operation == "launch" else None
    )
    with pytest.raises(GroupIncomplete, match="0 of 8 jobs") as caught:
        submit_group(bench.platform, bench.store, bench.request(name="sweep"), ids(8))
    assert caught.value.exit_code == BackendRejected.exit_code
    assert "tao-run retry --group" in caught.value.hint
    bench.backend.fault = lambda operation: None
    again = retry_group(lambda one: bench.platform, bench.store, "sweep", bench.notes.append)
    assert sorted(job.split_id or "" for job in again) == ids(8)
    assert len(bench.backend.jobs) == 8
    assert retry_group(lambda one: bench.platform, bench.store, "sweep", bench.notes.append) == []
    assert len(bench.backend.jobs) == 8


def test_a_member_whose_reply_was_lost_is_not_submitted_twice(bench: Bench) -> None:
    lost = BackendUnreachable("reset by peer")
    bench.backend.fault = lambda operation: lost if operation in ("launch-reply", "find") else None
    jobs = submit_group(bench.platform, bench.store, bench.request(name="sweep"), ids(4))
    assert [job.backend_id for job in jobs] == [None] * 4
    bench.backend.fault = lambda operation: None
    assert retry_group(lambda one: bench.platform, bench.store, "sweep", bench.notes.append) == []
    assert [bool(job.backend_id) for job in bench.store.in_group("sweep")] == [True] * 4
    assert len(bench.backend.jobs) == 4


def test_retrying_a_group_repeats_only_what_failed_with_the_same_split_ids(bench: Bench) -> None:
    lost = NodeEvent("NodeNotReady", "Node is not ready")
    lives = {"1": Life(0, 1, JobState.ERROR, events=(lost,), exit_code=143), "2": Life(0, 9999)}
    lives["3"] = Life(0, 1, JobState.ERROR, ("AssertionError: no",), exit_code=1)
    bench.backend.life = lambda job: lives.get(str(job.split_id), Life(0, 1))
    submit_group(bench.platform, bench.store, bench.request(name="sweep"), ids(4))
    bench.clock.sleep(10)
    again = retry_group(lambda one: bench.platform, bench.store, "sweep", bench.notes.append)
    assert [job.split_id for job in again] == ["1"]
    assert any("would fail again" in note for note in bench.notes)


def test_what_would_fail_for_all_is_not_tried_for_all(bench: Bench) -> None:
    bench.backend.fault = lambda operation: CredentialRefused("the token is not accepted")
    with pytest.raises(GroupIncomplete) as caught:
        submit_group(bench.platform, bench.store, bench.request(), ids(200))
    assert caught.value.exit_code == 3
    assert bench.backend.calls["launch"] <= 3 * IN_FLIGHT
