"""Following a job: exactly once, whatever happens to the connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tao_run.jobs.model import JobState, JobStatus, LogLine, LogQuery
from tao_run.platforms.lepton.api import LeptonApi, job_path
from tao_run.platforms.lepton.ends import Marks
from tao_run.platforms.lepton.follow import Follower
from tao_run.platforms.lepton.logs import JobLog
from tao_run.platforms.lepton.states import read_status
from tao_run.platforms.lepton.workers import read_replicas
from tests.fakes.lepton import FakeJob, FakeLepton, StreamPlan, error


@pytest.fixture
def job(lepton: FakeLepton) -> FakeJob:
    return lepton.workspace.add_job(state="Running")


def follow(api: LeptonApi, job: FakeJob, **query: Any) -> Iterator[LogLine]:
    log = JobLog(api, job.document(), datetime.now(timezone.utc) - timedelta(minutes=5), Marks("0" * 16))
    never = JobStatus(JobState.PENDING)
    return Follower(
        api,
        log,
        LogQuery(follow=True, **query),
        lambda: read_status(api.get(job_path(job.id)), never, api.clock.now()),
        lambda: read_replicas(api.rows(job_path(job.id, "replicas"))),
    ).lines()


def write(job: FakeJob, count: int, pause: float = 0.005, replicas: int = 1) -> threading.Thread:
    """Writes lines in the background, then ends the job."""
    job.spec["completions"] = replicas
    made = [job.add_replica(index) for index in range(replicas)]

    def work() -> None:
        for number in range(count):
            made[number % replicas].log(f"zeile {number} äöü")
            time.sleep(pause)
        job.status["state"] = "Completed"

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def expected(count: int) -> list[str]:
    return [f"zeile {number} äöü" for number in range(count)]


def shown(lines: Iterator[LogLine]) -> list[str]:
    return [line.text for line in lines if line.kind == "line"]


def by_number(texts: list[str]) -> list[str]:
    return sorted(texts, key=lambda text: int(text.split()[1]))


def test_a_log_is_followed_to_its_end(api: LeptonApi, job: FakeJob) -> None:
    write(job, 100)
    assert shown(follow(api, job)) == expected(100)


def test_characters_split_over_chunks_are_whole(lepton: FakeLepton, api: LeptonApi, job: FakeJob) -> None:
    lepton.faults.add_stream(StreamPlan(chunk=1))
    write(job, 60)
    assert shown(follow(api, job)) == expected(60)


@pytest.mark.parametrize("plan", [StreamPlan(abort_after=700), StreamPlan(close_after=703)], ids=["broken", "closed"])
def test_a_connection_that_ends_early_is_taken_up_again(
    lepton: FakeLepton, api: LeptonApi, job: FakeJob, plan: StreamPlan
) -> None:
    lepton.faults.add_stream(plan)
    lepton.faults.add_stream(StreamPlan(abort_after=1111, chunk=7))
    write(job, 200)
    assert shown(follow(api, job)) == expected(200)
    assert len(lepton.asked(path="/log")) > 2


def test_a_replay_that_is_not_whole_leads_to_the_log_service(lepton: FakeLepton, api: LeptonApi, job: FakeJob) -> None:
    for _ in range(9):
        lepton.faults.add_stream(StreamPlan(only_last=5, abort_after=200))
    write(job, 150)
    assert shown(follow(api, job)) == expected(150)


def test_without_live_streams_the_log_service_serves(lepton: FakeLepton, api: LeptonApi, job: FakeJob) -> None:
    lepton.faults.add(error(404, path="/log$", times=None))
    write(job, 100)
    assert shown(follow(api, job)) == expected(100)


def test_three_replicas_together(api: LeptonApi, job: FakeJob) -> None:
    write(job, 150, replicas=3)
    lines = [line for line in follow(api, job) if line.kind == "line"]
    assert by_number([line.text for line in lines]) == expected(150)
    for rank in range(3):
        assert [line.text for line in lines if line.rank == rank] == expected(150)[rank::3]


def test_many_replicas_are_one_query(lepton: FakeLepton, api: LeptonApi, job: FakeJob) -> None:
    write(job, 120, replicas=12)
    assert by_number(shown(follow(api, job))) == expected(120)
    assert not [request for request in lepton.requests if request.path.endswith("/log")]


def test_one_replica_of_several(api: LeptonApi, job: FakeJob) -> None:
    write(job, 60, replicas=3)
    assert shown(follow(api, job, replica="1")) == expected(60)[1::3]


def test_the_tail_begins_with_the_last_lines(api: LeptonApi, job: FakeJob) -> None:
    replica = job.add_replica(0)
    for number in range(50):
        replica.log(f"old {number}")
    stream = follow(api, job, tail=3)
    assert [next(stream).text for _ in range(3)] == ["old 47", "old 48", "old 49"]
    replica.log("new")
    job.status["state"] = "Completed"
    assert shown(stream) == ["new"]


def test_the_tail_of_a_long_log(lepton: FakeLepton, api: LeptonApi, job: FakeJob) -> None:
    replica = job.add_replica(0)
    for number in range(12_000):
        replica.log(f"old {number}")
    stream = follow(api, job, tail=2)
    assert [next(stream).text for _ in range(2)] == ["old 11998", "old 11999"]
    assert len(lepton.asked(path="/logs")) == 1
    replica.log("new")
    job.status["state"] = "Completed"
    assert shown(stream) == ["new"]


def test_a_long_log_is_read_whole_from_the_log_service(api: LeptonApi, job: FakeJob) -> None:
    replica = job.add_replica(0)
    for number in range(9_500):
        replica.log(f"old {number}")
    stream = follow(api, job)
    head = [next(stream).text for _ in range(9_500)]
    assert head[-1] == "old 9499"
    replica.log("new")
    job.status["state"] = "Failed"
    assert shown(stream) == ["new"]


def test_a_job_that_has_not_started_is_waited_for(lepton: FakeLepton, api: LeptonApi, job: FakeJob) -> None:
    job.status["state"] = "Queueing"
    stream = follow(api, job)
    first = next(stream)
    assert (first.kind, first.text) == ("note", "waiting: the job waits for capacity or quota")
    job.status["state"] = "Running"
    write(job, 20)
    assert shown(stream) == expected(20)


def test_an_outage_is_told_and_survived(lepton: FakeLepton, api: LeptonApi, job: FakeJob) -> None:
    lepton.faults.add(error(500, path=f"/jobs/{job.id}$", times=7))
    write(job, 40)
    lines = list(follow(api, job))
    assert any(line.kind == "note" and "still trying" in line.text for line in lines)
    assert [line.text for line in lines if line.kind == "line"] == expected(40)


def test_a_log_service_that_lags_behind_is_waited_for(api: LeptonApi, lepton: FakeLepton, job: FakeJob) -> None:
    lepton.faults.add(error(404, path="/log$", times=None))
    replica = job.add_replica(0)
    replica.log("first")
    job.status["state"] = "Completed"

    class Late(threading.Thread):
        def run(self) -> None:
            while len(lepton.asked(path="/logs")) < 4:
                time.sleep(0.001)
            replica.log("last words")

    Late(daemon=True).start()
    stream = follow(api, job)
    assert next(stream).text == "first"
    assert shown(stream) == ["last words"]


def test_carriage_returns_and_markup_arrive_as_they_are(api: LeptonApi, job: FakeJob) -> None:
    replica = job.add_replica(0)
    text = "[rank0] Epoch[3] dir=[/tmp/x] \x1b[31m 10%\r20%"
    replica.log(text)
    job.status["state"] = "Completed"
    assert shown(follow(api, job)) == [text]


def test_nothing_is_left_running_when_the_reader_stops(api: LeptonApi, job: FakeJob) -> None:
    job.add_replica(0).log("only")
    stream = follow(api, job)
    assert next(stream).text == "only"
    stream.close()  # type: ignore[attr-defined]
    job.status["state"] = "Completed"
    deadline = time.monotonic() + 10
    while [t for t in threading.enumerate() if "_pump" in t.name] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [t for t in threading.enumerate() if "_pump" in t.name]
