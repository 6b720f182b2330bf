"""Submitted exactly once, never lost; a backend that does not answer is no state; an ended job stays ended."""

from __future__ import annotations

import json
import time

import pytest

from tao_run.errors import BackendUnreachable, CredentialRefused
from tao_run.jobs.model import JobState
from tao_run.jobs.observe import refresh
from tao_run.platforms.lifecycle import build_job, cancel, dry_run, launcher_identity, submit
from tests.conformance.bench import Bench
from tests.conformance.rig import CANARY


def test_cancel_stops_the_job_and_verifies(bench: Bench) -> None:
    job = bench.submit("echo started; sleep 300 & sleep 300; echo never")
    bench.wait(job, JobState.RUNNING)
    ended = cancel(bench.platform, bench.store, bench.store.get(job.id))
    assert ended.status.state is JobState.CANCELED
    assert bench.look(job).status.state is JobState.CANCELED
    assert "never" not in bench.texts(job)


def test_cancel_keeps_the_log(bench: Bench) -> None:
    job = bench.submit("echo before; sleep 300")
    bench.wait_for_lines(job, 1)
    cancel(bench.platform, bench.store, bench.store.get(job.id))
    assert bench.texts(job) == ["before"]


def test_cancel_twice_and_cancel_of_an_ended_job_change_nothing(bench: Bench) -> None:
    job, _ = bench.run("exit 4")
    again = cancel(bench.platform, bench.store, bench.store.get(job.id))
    assert (again.status.state, again.status.exit_code) == (JobState.ERROR, 4)
    running = bench.submit("sleep 300")
    bench.wait(running, JobState.RUNNING)
    for _ in range(2):
        assert cancel(bench.platform, bench.store, bench.store.get(running.id)).status.state is JobState.CANCELED


def test_an_ended_job_stays_as_it_ended_when_it_is_removed(bench: Bench) -> None:
    job, status = bench.run("exit 6")
    assert status.state is JobState.ERROR
    cancel(bench.platform, bench.store, bench.store.get(job.id), delete=True)
    assert (bench.look(job).status.state, bench.look(job).status.exit_code) == (JobState.ERROR, 6)


def test_a_job_removed_behind_our_back_is_not_pending_for_ever(bench: Bench) -> None:
    job = bench.submit("sleep 20")
    bench.wait(job, JobState.RUNNING)
    cancel_first = bench.store.get(job.id)
    if not bench.rig.remove(bench.platform, cancel_first):
        pytest.skip("nobody else can remove it")
    deadline = time.monotonic() + bench.rig.patience
    while time.monotonic() < deadline:
        status = bench.look(job).status
        if status.state not in (JobState.PENDING, JobState.RUNNING):
            break
        time.sleep(0.3)
    assert status.state in (JobState.ERROR, JobState.CANCELED, JobState.UNKNOWN)
    assert status.reason


def test_crash_between_record_and_launch_is_found_out(bench: Bench) -> None:
    job = bench.build("echo never")
    bench.store.add(job, "some-host:999999:1")
    assert bench.look(job).status.state is JobState.PENDING
    bench.clock.ahead = bench.platform.launch_grace + 1
    settled = bench.look(job).status
    assert (settled.state, settled.reason) == (JobState.ERROR, "NeverLaunched")
    assert bench.rig.jobs_named(job.name) == 0


def test_crash_between_launch_and_confirmation_is_adopted(bench: Bench) -> None:
    job = bench.build("echo once")
    bench.store.add(job, "some-host:999999:1")
    bench.platform.launch(bench.platform.prepare(job))
    bench.live.append(job)
    assert bench.wait(job).state is JobState.COMPLETE
    assert bench.texts(job) == ["once"]
    assert bench.rig.jobs_named(job.name) == 1


def test_the_next_process_finds_everything_by_the_record(bench: Bench) -> None:
    job = bench.submit("echo one; sleep 2; echo two; exit 2")
    bench.platform = bench.again()
    assert bench.wait(job).exit_code == 2
    assert bench.texts(job) == ["one", "two"]


def test_a_lost_reply_never_makes_a_second_job(bench: Bench) -> None:
    lost = bench.rig.lost_reply()
    if lost is None:
        pytest.skip("a reply cannot be lost here")
    job = bench.build("echo once")
    with lost:
        submitted = submit(bench.platform, bench.store, job)
    bench.live.append(job)
    assert submitted.backend_id
    assert bench.wait(job).state is JobState.COMPLETE
    assert bench.rig.jobs_named(job.name) == 1


def test_nothing_is_found_for_a_job_that_was_never_launched(bench: Bench) -> None:
    assert bench.platform.find(bench.build("echo never")) is None


def test_unreachable_is_no_state(bench: Bench) -> None:
    job = bench.submit("sleep 8")
    before = bench.wait(job, JobState.RUNNING)
    with bench.rig.unreachable():
        with pytest.raises(BackendUnreachable):
            bench.platform.poll([bench.store.get(job.id)])
        sweep = refresh([bench.store.get(job.id)], lambda _: bench.platform, bench.store)
    assert sweep.faults
    assert (sweep.jobs[0].status.state, sweep.jobs[0].status.reachable) == (JobState.RUNNING, False)
    kept = bench.store.get(job.id).status
    assert (kept.state, kept.reachable, kept.observed_at) == (JobState.RUNNING, True, kept.observed_at)
    assert before.state is JobState.RUNNING
    assert bench.wait(job).state is JobState.COMPLETE


def test_a_refused_credential_is_no_state(bench: Bench) -> None:
    refused = bench.rig.refused()
    if refused is None:
        pytest.skip("the platform knows no credential")
    job = bench.submit("sleep 6")
    bench.wait(job, JobState.RUNNING)
    with refused, pytest.raises(CredentialRefused):
        bench.again().poll([bench.store.get(job.id)])
    assert bench.wait(job).state is JobState.COMPLETE


def test_dry_run_creates_and_records_nothing(bench: Bench) -> None:
    request = bench.rig.request("echo hello", secrets={"HF_TOKEN": "HF_TOKEN"})
    launch = dry_run(bench.platform, request)
    assert bench.store.recent() == []
    assert bench.rig.jobs_named(launch.job.name) == 0
    text = launch.native if isinstance(launch.native, str) else json.dumps(launch.native, default=str)
    assert "echo hello" in text
    assert CANARY not in text
    assert json.dumps(CANARY)[1:-1] not in text


def test_a_secret_arrives_and_appears_nowhere_else(bench: Bench) -> None:
    command = 'printf "%s" "$HF_TOKEN" | od -An -tx1 -v | tr -d " \\n"; echo; sleep 2'
    job = bench.submit(command, secrets={"HF_TOKEN": "HF_TOKEN"})
    while_running = bench.rig.seen_text()
    status = bench.wait(job)
    assert status.state is JobState.COMPLETE
    assert bench.texts(job) == [CANARY.encode().hex()]
    for text in (while_running, bench.rig.seen_text(), bench.store.path.read_bytes().decode(errors="replace")):
        assert CANARY not in text
        assert json.dumps(CANARY)[1:-1] not in text


def test_evidence_of_a_failure_has_the_end_of_the_log_and_the_exit_code(bench: Bench) -> None:
    job, _ = bench.run("echo some work; echo RuntimeError: boom >&2; exit 11")
    evidence = bench.platform.evidence(bench.store.get(job.id))
    assert "RuntimeError: boom" in [line.text for line in evidence.log_tail]
    codes = [evidence.status.exit_code, *(replica.exit_code for replica in evidence.replicas)]
    assert 11 in codes


def test_a_submission_under_way_is_not_declared_dead(bench: Bench) -> None:
    job = bench.build("echo slow")
    bench.store.add(job, launcher_identity())
    bench.clock.ahead = bench.platform.launch_grace + 1
    assert bench.look(job).status.state is JobState.PENDING


def test_access_checks_pass_here(bench: Bench) -> None:
    checks = bench.platform.check_access(bench.rig.request("true"))
    assert checks
    assert [check for check in checks if check.status == "failed"] == []


def test_access_checks_fail_when_unreachable(bench: Bench) -> None:
    if bench.rig.name == "local":
        pytest.skip("this machine is always reachable from itself")
    with bench.rig.unreachable():
        checks = bench.again().check_access(bench.rig.request("true"))
    failed = [check for check in checks if check.status == "failed"]
    assert failed
    assert all(check.fix for check in failed)


def test_a_wrong_option_is_refused_before_anything_happens(bench: Bench) -> None:
    from tao_run.errors import UsageError

    request = bench.rig.request("true", options={"no_such_option": "x"})
    with pytest.raises(UsageError, match="no_such_option"):
        bench.platform.prepare(build_job(bench.platform, request))
    assert bench.store.recent() == []
