"""Retries: only what failed, only where it makes sense, linked, made once, away from bad nodes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tao_run.errors import BackendRejected, BackendUnreachable, UsageError
from tao_run.jobs.model import JobState, NodeEvent
from tao_run.jobs.retry import AutomaticRetry, analysis_of, check_worth, latest_attempt, retry
from tests.fakes.scripted import Life
from tests.jobs.bench import Bench

OOM = Life(0, 1, JobState.ERROR, ("torch.OutOfMemoryError: CUDA out of memory.",), exit_code=1)
XID = Life(0, 1, JobState.ERROR, ("NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.",), exit_code=1)
LOST = Life(
    0, 1, JobState.ERROR, ("hi",), (NodeEvent("NodeNotReady", "Node is not ready", node="node-7"),), exit_code=143
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def ended(bench: Bench, life: Life, **fields: object):  # type: ignore[no-untyped-def]
    job = bench.submit(life, **fields)  # type: ignore[arg-type]
    list(bench.watcher(job).sweeps())
    return bench.store.get(job.id)


def automatic(bench: Bench) -> AutomaticRetry:
    return AutomaticRetry(
        lambda job: bench.platform,
        bench.store,
        lambda job: analysis_of(bench.platform, job, bench.clock.now()),
        bench.notes.append,
    )


def test_a_program_error_is_refused_and_says_why(bench: Bench) -> None:
    job = ended(bench, OOM)
    with pytest.raises(UsageError, match="GPU memory exhausted"):
        check_worth(job, analysis_of(bench.platform, job, bench.clock.now()))


@pytest.mark.parametrize("how", [JobState.COMPLETE, JobState.CANCELED])
def test_what_has_not_failed_is_refused(bench: Bench, how: JobState) -> None:
    job = ended(bench, Life(0, 1, how))
    with pytest.raises(UsageError, match="is not retried"):
        check_worth(job, None)


def test_a_retry_keeps_the_split_and_the_group_and_links_to_what_it_repeats(bench: Bench) -> None:
    bench.store.add_group("g1", "sweep", [])
    job = ended(bench, XID, split_id="3", name="sweep")
    again = retry(bench.platform, bench.store, job)
    assert (again.split_id, again.retry_of, again.account) == ("3", job.id, job.account)
    assert again.id != job.id and dict(again.spec) == dict(job.spec)
    assert latest_attempt(bench.store, job).id == again.id


def test_a_node_at_fault_is_avoided(bench: Bench) -> None:
    job = ended(bench, LOST)
    analysis = analysis_of(bench.platform, job, bench.clock.now())
    assert analysis is not None and analysis.rule == "node-failure"
    again = retry(bench.platform, bench.store, job, analysis)
    assert again.options["exclude"] == "node-7"
    assert bench.backend.jobs[again.name].native["options"]["exclude"] == "node-7"


def test_two_processes_that_retry_at_once_make_one_job(bench: Bench) -> None:
    job = ended(bench, XID)
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.append(retry(bench.platform, bench.store, job).id)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = [name for name in bench.backend.jobs if bench.store.retries_of(job.id)[0].id in name]
    assert len(set(made)) == len(bench.store.retries_of(job.id))
    assert len(first) == 1


def test_watching_retries_infrastructure_failures_as_often_as_allowed(bench: Bench) -> None:
    lives = iter([LOST, LOST, Life(0, 1)])
    bench.backend.life = lambda job: next(lives)
    job = bench.submit(retries=3)
    *_, last = bench.watcher(job, successor=automatic(bench)).sweeps()
    assert [found.status.state for found in last.jobs] == [JobState.COMPLETE]
    assert last.jobs[0].retry_of == bench.store.retries_of(job.id)[0].id
    assert sum("; retry" in note for note in bench.notes) == 2


def test_watching_stops_retrying_when_the_number_is_used_up(bench: Bench) -> None:
    job = bench.submit(LOST, retries=1)
    *_, last = bench.watcher(job, successor=automatic(bench)).sweeps()
    assert last.jobs[0].status.state is JobState.ERROR
    assert len(bench.backend.jobs) == 2


def test_watching_does_not_retry_a_program_error_or_what_did_not_ask_for_it(bench: Bench) -> None:
    for life, retries in ((OOM, 3), (LOST, 0)):
        job = bench.submit(life, retries=retries)
        *_, last = bench.watcher(job, successor=automatic(bench)).sweeps()
        assert last.jobs[0].id == job.id
    assert len(bench.backend.jobs) == 2


def test_a_retry_that_is_refused_leaves_the_job_failed_and_says_so(bench: Bench) -> None:
    job = bench.submit(LOST, retries=1)
    bench.backend.fault = lambda operation: BackendRejected("over quota") if operation == "launch" else None
    *_, last = bench.watcher(job, successor=automatic(bench)).sweeps()
    assert last.jobs[0].status.state is JobState.ERROR
    assert any("not retried: over quota" in note for note in bench.notes)


def test_a_retry_whose_reply_was_lost_is_followed_until_its_fate_is_known(bench: Bench) -> None:
    lives = iter([LOST, Life(0, 30)])
    bench.backend.life = lambda job: next(lives)
    job = bench.submit(retries=1)

    def fault(operation: str) -> BackendUnreachable | None:
        lost = operation == "launch-reply" or (operation == "find" and bench.clock.seconds < 60)
        return BackendUnreachable("reset by peer") if lost else None

    bench.backend.fault = fault
    *_, last = bench.watcher(job, successor=automatic(bench)).sweeps()
    assert last.jobs[0].status.state is JobState.COMPLETE
    assert last.jobs[0].retry_of == job.id
    assert len(bench.backend.jobs) == 2


def test_watching_a_job_that_was_retried_follows_its_retry(bench: Bench) -> None:
    job = ended(bench, LOST)
    bench.backend.life = lambda job: Life(0, 5)
    again = retry(bench.platform, bench.store, job)
    *_, last = bench.watcher(bench.store.get(again.id), successor=automatic(bench)).sweeps()
    assert [found.status.state for found in last.jobs] == [JobState.COMPLETE]
