"""Watching: cadence, batching, back-off, stale states, time-outs, sleep, and an end only when all have ended."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tao_run.errors import BackendUnreachable, CredentialRefused, NotInstalled, RateLimited
from tao_run.jobs.model import JobState
from tao_run.jobs.watch import Pace, in_thread
from tests.fakes.scripted import Life
from tests.jobs.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, ("main", "other"))


def test_a_job_that_fails_at_once_is_seen_within_seconds(bench: Bench) -> None:
    job = bench.submit(Life(starts=0, ends=1, how=JobState.ERROR))
    *_, last = bench.watcher(job).sweeps()
    assert last.jobs[0].status.state is JobState.ERROR
    assert bench.clock.seconds < 5


def test_looks_become_rarer_up_to_the_interval(bench: Bench) -> None:
    job = bench.submit(Life(starts=0, ends=4000))
    assert [s.jobs[0].status.state for s in bench.watcher(job, interval=300).sweeps()][-1] is JobState.COMPLETE
    assert bench.clock.slept == sorted(bench.clock.slept)
    assert max(bench.clock.slept) == 300
    assert bench.backend.calls["poll"] < 25


def test_many_jobs_of_an_account_cost_one_request_per_look(bench: Bench) -> None:
    jobs = [bench.submit(Life(ends=50)) for _ in range(40)]
    looks = sum(1 for _ in bench.watcher(*jobs).sweeps()) - 1
    assert bench.backend.calls["poll"] == looks


def test_changes_all_the_time_do_not_make_a_poller_that_is_banned(bench: Bench) -> None:
    starts = itertools.count()
    bench.backend.life = lambda job: Life(starts=20.0 * next(starts), ends=9000)
    jobs = [bench.submit() for _ in range(200)]
    list(bench.watcher(*jobs, interval=300).sweeps())
    assert bench.backend.calls["poll"] <= 9300 / 15 + 10


def test_an_account_that_does_not_answer_keeps_its_states_and_the_others_go_on(bench: Bench) -> None:
    here, there = bench.submit(Life(ends=100)), bench.submit(Life(ends=100), "other")
    watcher = bench.watcher(here, there, interval=20)
    sweeps = watcher.sweeps()
    next(sweep for sweep in sweeps if all(job.status.state is JobState.RUNNING for job in sweep.jobs))
    bench.backend.fault = lambda operation: BackendUnreachable("no route")
    for sweep in sweeps:
        if sweep.jobs[1].status.state is JobState.COMPLETE:
            break
    stale = sweep.jobs[0].status
    assert (stale.state, stale.reachable, stale.message) == (JobState.RUNNING, False, "no route")
    assert list(sweep.faults) == [("scripted", "main")]
    bench.backend.fault = lambda operation: None
    *_, last = sweeps
    assert [job.status.state for job in last.jobs] == [JobState.COMPLETE] * 2
    assert last.jobs[0].status.reachable and not last.faults


@pytest.mark.parametrize("error", [BackendUnreachable("down"), CredentialRefused("expired")])
def test_days_without_an_answer_do_not_end_a_watch(bench: Bench, error: Exception) -> None:
    job = bench.submit(Life(ends=10))
    bench.backend.fault = lambda operation: error if bench.clock.seconds < 3 * 86400 else None  # type: ignore[return-value]
    *_, last = bench.watcher(job).sweeps()
    assert last.jobs[0].status.state is JobState.COMPLETE
    assert bench.backend.calls["poll"] < 3 * 86400 / 300


def test_backing_off_doubles_is_spread_and_obeys_the_server() -> None:
    pace = Pace(due=0.0)
    dues = []
    for _ in range(8):
        pace.failed(0.0, 300.0, BackendUnreachable("x"), 0.5)
        dues.append(pace.due)
    assert dues == [5, 10, 20, 40, 80, 160, 320, 640]
    spread = [Pace(0.0) for _ in range(3)]
    for one, chance in zip(spread, (0.0, 0.5, 1.0), strict=True):
        one.failed(0.0, 300.0, BackendUnreachable("x"), chance)
    assert [one.due for one in spread] == [2.5, 5.0, 7.5]
    pace.failed(0.0, 300.0, RateLimited("slow down", retry_after=2000.0), 0.5)
    assert pace.due == 2000
    pace.succeeded(0.0, 300.0, changed=False)
    pace.failed(0.0, 300.0, BackendUnreachable("x"), 0.5)
    assert pace.due == 5


def test_a_quiet_interval_is_shown_although_nothing_is_heard(bench: Bench) -> None:
    job = bench.submit(Life(ends=10_000))
    bench.backend.fault = lambda operation: RateLimited("slow down", retry_after=5000.0)
    sweeps = bench.watcher(job, interval=60).sweeps()
    seen = [next(sweeps) and bench.clock.seconds for _ in range(10)]
    assert bench.backend.calls["poll"] == 1
    assert [b - a for a, b in itertools.pairwise(seen[2:])] == [60] * 7


def test_the_timeout_leaves_and_the_jobs_go_on(bench: Bench) -> None:
    job = bench.submit(Life(ends=10_000))
    *_, last = bench.watcher(job).sweeps(timeout=100)
    assert bench.clock.seconds == 100
    assert last.jobs[0].status.state is JobState.RUNNING


def test_after_the_machine_has_slept_everything_is_looked_at_at_once(bench: Bench) -> None:
    job = bench.submit(Life(ends=10_000))
    watcher = bench.watcher(job)
    sweeps = watcher.sweeps()
    while bench.clock.seconds < 2000:
        next(sweeps)
    calls, before = bench.backend.calls["poll"], bench.clock.seconds
    bench.clock.asleep(9 * 3600)
    *_, last = sweeps
    assert last.jobs[0].status.state is JobState.COMPLETE
    assert (bench.backend.calls["poll"], bench.clock.seconds) == (calls + 1, before)


def test_a_missing_package_is_said_instead_of_asked_for_ever(bench: Bench) -> None:
    job = bench.submit(Life(ends=10))
    bench.backend.fault = lambda operation: NotInstalled("no package", "pip install it")
    with pytest.raises(NotInstalled):
        list(bench.watcher(job).sweeps())


def test_a_fault_of_ours_in_the_other_thread_is_not_swallowed(bench: Bench) -> None:
    job = bench.submit(Life(ends=10))
    bench.backend.fault = lambda operation: ZeroDivisionError()  # type: ignore[return-value]
    with pytest.raises(ZeroDivisionError):
        list(bench.watcher(job).sweeps())


def test_jobs_that_have_ended_are_not_asked_about(bench: Bench) -> None:
    job = bench.submit(Life(ends=1))
    list(bench.watcher(job).sweeps())
    calls = bench.backend.calls["poll"]
    assert len(list(bench.watcher(bench.store.get(job.id)).sweeps())) == 1
    assert bench.backend.calls["poll"] == calls


def test_what_goes_wrong_in_the_thread_of_a_look_is_not_lost(bench: Bench) -> None:
    job = bench.submit()

    def broken(operation: str) -> None:
        raise ZeroDivisionError(operation)

    bench.backend.fault = broken
    with pytest.raises(ZeroDivisionError, match="poll"):
        list(bench.watcher(job, spawn=in_thread).sweeps())
