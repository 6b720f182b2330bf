"""Logs from the log service: every line, once, in time order, whatever the size and however it is asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tao_run.errors import ProtocolError, RateLimited, UsageError
from tao_run.jobs.model import LogLine, LogQuery
from tao_run.platforms.lepton.api import LeptonApi
from tao_run.platforms.lepton.ends import Marks
from tao_run.platforms.lepton.logrange import Cursor, LogRange, Record, Selector
from tao_run.platforms.lepton.logs import JobLog, to_ns
from tests.fakes.lepton import FakeJob, FakeLepton, FakeReplica, document, error
from tests.platforms.lepton.conftest import HurriedClock

SECOND = 1_000_000_000
OUR_ID = "0123456789abcdef"


def began() -> datetime:
    return datetime.now(timezone.utc) - timedelta(hours=1)


def log_of(api: LeptonApi, job: FakeJob) -> JobLog:
    return JobLog(api, job.document(), began(), Marks(OUR_ID))


def lines(api: LeptonApi, job: FakeJob, **query: Any) -> list[LogLine]:
    return list(log_of(api, job).lines(LogQuery(**query)))


def texts(found: list[LogLine]) -> list[str]:
    return [line.text for line in found]


@pytest.fixture
def job(lepton: FakeLepton) -> FakeJob:
    made = lepton.workspace.add_job(state="Running")
    made.status["creation_time"] = int(began().timestamp() * 1000)
    return made


def fill(job: FakeJob, replicas: int, count: int) -> list[str]:
    """`count` lines over some replicas at random times; returns them in time order."""
    chosen = random.Random(1)
    made = [job.add_replica(index) for index in range(replicas)]
    at, expected = to_ns(began()), []
    for number in range(count):
        at += chosen.choice((1, 1000, SECOND // 100))
        chosen.choice(made).log(f"line {number}", at_ns=at)
        expected.append(f"line {number}")
    return expected


def test_twelve_thousand_lines_over_three_replicas_are_exact(lepton: FakeLepton, api: LeptonApi, job: FakeJob) -> None:
    expected = fill(job, 3, 12_000)
    found = lines(api, job)
    assert texts(found) == expected
    assert {line.rank for line in found} == {0, 1, 2}
    assert [line.time for line in found] == sorted(line.time for line in found if line.time)
    assert len(lepton.asked(path="/logs")) <= 3


@pytest.mark.parametrize("count", [0, 1, 7, 11_000])
def test_the_tail_is_the_last_lines_in_all(api: LeptonApi, job: FakeJob, count: int) -> None:
    expected = fill(job, 3, 12_000)
    assert texts(lines(api, job, tail=count)) == expected[len(expected) - count :]


def test_a_tail_longer_than_the_log_is_the_log(api: LeptonApi, job: FakeJob) -> None:
    expected = fill(job, 2, 30)
    assert texts(lines(api, job, tail=100)) == expected


def test_since_and_replica(api: LeptonApi, job: FakeJob) -> None:
    start = to_ns(began())
    zero, one = job.add_replica(0), job.add_replica(1)
    for second in range(10):
        zero.log(f"zero {second}", at_ns=start + second * SECOND)
        one.log(f"one {second}", at_ns=start + second * SECOND + 1)
    since = datetime.fromtimestamp(start / SECOND, timezone.utc) + timedelta(seconds=8)
    assert texts(lines(api, job, since=since, replica="1")) == ["one 8", "one 9"]
    assert texts(lines(api, job, replica=zero.id, tail=1)) == ["zero 9"]


def test_an_unknown_replica_lists_those_there_are(api: LeptonApi, job: FakeJob) -> None:
    fill(job, 2, 1)
    with pytest.raises(UsageError) as caught:
        lines(api, job, replica="7")
    assert caught.value.hint == "there are: 0, 1"


def test_a_service_that_caps_pages_loses_nothing(api: LeptonApi, job: FakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fill(job, 2, 50)
    capped = Capped(api, job.id, 7)
    found = [item for item in Cursor(capped, 1).read(2**62) if isinstance(item, Record)]
    assert [record.text for record in found] == expected


class Capped(LogRange):
    """A log service that gives fewer records than it was asked for."""

    def __init__(self, api: LeptonApi, job_id: str, cap: int) -> None:
        super().__init__(api, Selector(job_id))
        self.cap = cap

    def page(self, start: int, end: int, direction: str, limit: int = 10_000) -> list[Record]:
        return super().page(start, end, direction, min(limit, self.cap))


def test_equal_lines_at_one_instant_are_counted_not_merged(api: LeptonApi, job: FakeJob) -> None:
    replica = job.add_replica(0)
    for at in (1, 1, 1, 2, 2):
        replica.log("same", at_ns=to_ns(began()) + at)
    assert texts(lines(api, job)) == ["same"] * 5
    assert texts(lines(api, job, tail=4)) == ["same"] * 4


def test_lines_that_cannot_be_had_are_a_gap(api: LeptonApi, job: FakeJob) -> None:
    replica = job.add_replica(0)
    at = to_ns(began())
    for _ in range(10_005):
        replica.log("burst", at_ns=at)
    replica.log("after", at_ns=at + 5)
    found = lines(api, job)
    assert [line.kind for line in found].count("gap") == 1
    assert found[-1].text == "after"


def test_a_cursor_reads_each_record_once_also_late_ones(api: LeptonApi, job: FakeJob) -> None:
    early, late = job.add_replica(0), job.add_replica(1)
    at = to_ns(began())
    early.log("a", at_ns=at + 10 * SECOND)
    cursor = Cursor(LogRange(api, Selector(job.id)), at, lookback=20)
    assert [item.text for item in cursor.read(2**62)] == ["a"]
    late.log("late", at_ns=at + 5 * SECOND)
    early.log("b", at_ns=at + 11 * SECOND)
    assert [item.text for item in cursor.read(2**62)] == ["late", "b"]
    assert list(cursor.read(2**62)) == []


def test_earlier_attempts_come_first_with_a_note(lepton: FakeLepton, api: LeptonApi, job: FakeJob) -> None:
    created = job.status["creation_time"]
    first = FakeReplica(f"{job.id}-0-aaaaa", {})
    first.log("first try", at_ns=created * 1_000_000)
    job.attempt_logs["try-0"] = [first]
    job.status["job_history"] = [{"job_name": "try-0", "state": "Failed", "creation_time": created}]
    job.status["creation_time"] = created + 60_000
    job.add_replica(0).log("second try", at_ns=(created + 61_000) * 1_000_000)
    found = lines(api, job)
    assert texts(found) == ["first try", "attempt 1 of 2 ended: Failed", "second try"]
    assert [line.kind for line in found] == ["line", "note", "line"]
    assert texts(lines(api, job, tail=2)) == ["first try", "second try"]


def test_without_a_creation_time_our_own_record_says_when_it_began(api: LeptonApi, job: FakeJob) -> None:
    expected = fill(job, 1, 3)
    job.status["creation_time"] = None
    job.metadata["created_at"] = None
    assert texts(lines(api, job)) == expected


def test_a_limited_page_is_fetched_again_and_a_limit_that_stays_is_an_error(
    lepton: FakeLepton, api: LeptonApi, job: FakeJob, clock: HurriedClock
) -> None:
    expected = fill(job, 1, 3)
    lepton.faults.add(error(429, path="/logs", headers={"Retry-After": "3"}))
    assert texts(lines(api, job)) == expected
    assert clock.slept == [3]
    lepton.faults.add(error(429, path="/logs", times=None))
    with pytest.raises(RateLimited):
        lines(api, job)


@pytest.mark.parametrize("answer", [{"data": {"result": [{"values": [["x", "y"]]}]}}, [1], {"data": 5}])
def test_an_answer_of_another_shape_is_an_error(
    lepton: FakeLepton, api: LeptonApi, job: FakeJob, answer: object
) -> None:
    lepton.faults.add(document(answer, path="/logs"))
    with pytest.raises(ProtocolError):
        lines(api, job)


@pytest.mark.parametrize("answer", [{}, {"data": None}, {"data": {"result": None}}, {"data": {"result": []}}])
def test_an_empty_answer_is_an_empty_log(lepton: FakeLepton, api: LeptonApi, job: FakeJob, answer: object) -> None:
    lepton.faults.add(document(answer, path="/logs"))
    assert lines(api, job) == []


def test_log_lines_are_a_stream(api: LeptonApi, job: FakeJob, lepton: FakeLepton) -> None:
    fill(job, 1, 12_000)
    stream: Iterator[LogLine] = log_of(api, job).lines(LogQuery())
    assert next(stream).text == "line 0"
    assert len(lepton.asked(path="/logs")) == 1
