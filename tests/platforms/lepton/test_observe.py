"""Looking at jobs: few requests for many, honest about what is gone, and never a fault turned into a state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tao_run.errors import (
    BackendFault,
    BackendRejected,
    BackendUnreachable,
    CredentialRefused,
    NoSuchJob,
    PermissionRefused,
    ProtocolError,
    RateLimited,
    TaoRunError,
    UsageError,
)
from tao_run.jobs.model import Job, JobState, JobStatus, LogQuery
from tao_run.platforms.lifecycle import cancel, observe
from tests.fakes.lepton import FakeJob, Fault, document, error, html
from tests.platforms.lepton.conftest import Desk

SEEN = JobStatus(JobState.RUNNING, native_state="Running")
RUNNING: dict[str, Any] = {"state": "Running", "ready": 1, "active": 1}


def one(desk: Desk, **status: Any) -> tuple[FakeJob, Job]:
    fake = desk.lepton.workspace.add_job("one", **status)
    return fake, desk.adopt(fake, status=SEEN)


def many(desk: Desk, count: int, group: str | None = None) -> list[Job]:
    model = desk.build()
    jobs = []
    for number in range(count):
        fake = desk.lepton.workspace.add_job(f"job-{number}", **RUNNING)
        job = replace(model, id=f"{number:016x}", backend_id=fake.id, group=group, status=SEEN)
        fake.metadata["labels"] = {"tao-run": job.id, **({"tao-run-group": group} if group else {})}
        jobs.append(job)
    return jobs


def look(desk: Desk, job: Job) -> JobStatus:
    return desk.platform.poll([job])[job.id]


@pytest.mark.parametrize("group", [None, "sweep"])
def test_a_thousand_jobs_are_three_requests_at_most(desk: Desk, group: str | None) -> None:
    jobs = many(desk, 1000, group)
    many(desk, 20, "other") if group else None
    before = len(desk.lepton.requests)
    seen = desk.platform.poll(jobs)
    assert len(seen) == 1000
    assert {status.state for status in seen.values()} == {JobState.RUNNING}
    asked = desk.lepton.requests[before:]
    assert len(asked) <= 3
    assert {request.query["query"][0] for request in asked} == {f"tao-run-group={group}" if group else "tao-run"}


def test_one_job_is_one_request(desk: Desk) -> None:
    _, job = one(desk, **RUNNING)
    before = len(desk.lepton.requests)
    assert look(desk, job).state is JobState.RUNNING
    assert len(desk.lepton.requests) - before == 1


def test_archived_jobs_among_many_are_found_in_the_archive(desk: Desk) -> None:
    jobs = many(desk, 10)
    archived = desk.lepton.workspace.jobs[str(jobs[3].backend_id)]
    archived.status.update(state="Archived", succeeded=1)
    seen = desk.platform.poll(jobs)
    assert seen[jobs[3].id].state is JobState.COMPLETE
    assert seen[jobs[4].id].state is JobState.RUNNING


def test_a_service_that_does_not_turn_pages_is_no_endless_loop(desk: Desk) -> None:
    jobs = many(desk, 5)
    desk.lepton.workspace.honour_paging = False
    missing = replace(jobs[0], id="f" * 16, backend_id="gone-xxxx")
    seen = desk.platform.poll([*jobs, missing])
    assert seen[jobs[0].id].state is JobState.RUNNING
    assert seen[missing.id].reason == "Removed"


def test_short_pages_lose_no_job(desk: Desk) -> None:
    desk.lepton.workspace.max_page_size = 7
    assert {status.state for status in desk.platform.poll(many(desk, 40)).values()} == {JobState.RUNNING}


@pytest.mark.parametrize("count", [1, 6])
def test_a_job_that_was_removed_is_said_to_be(desk: Desk, count: int) -> None:
    jobs = many(desk, count)
    del desk.lepton.workspace.jobs[str(jobs[0].backend_id)]
    status = desk.platform.poll(jobs)[jobs[0].id]
    assert (status.state, status.reason) == (JobState.CANCELED, "Removed")


def test_a_job_whose_record_expired_is_unknown_not_failed(desk: Desk) -> None:
    _, job = one(desk, **RUNNING)
    desk.lepton.workspace.jobs.clear()
    old = replace(job, created_at=job.created_at - timedelta(days=4))
    assert (look(desk, old).state, look(desk, old).reason) == (JobState.UNKNOWN, "Expired")


def test_a_wrong_workspace_is_no_removed_job(desk: Desk) -> None:
    _, job = one(desk, **RUNNING)
    with pytest.raises(PermissionRefused, match="no workspace ws2"):
        look(desk, replace(job, account=job.account.replace("ws1", "ws2")))


def test_the_recorded_account_is_asked_whatever_the_environment_says(
    desk: Desk, make_desk: Callable[..., Desk]
) -> None:
    _, job = one(desk, **RUNNING)
    elsewhere = make_desk(LEPTON_WORKSPACE_URL="http://127.0.0.1:9/api/v2/workspaces/ws9", LEPTON_WORKSPACE_ID="ws9")
    assert look(elsewhere, job).state is JobState.RUNNING


ISSUE = {"reason": "ConfigError", "message": "Failed to pull image: not found"}


@pytest.mark.parametrize("native", ["Starting", "Queueing"])
def test_a_pending_job_says_why(desk: Desk, native: str) -> None:
    fake, job = one(desk, state=native)
    fake.add_replica(0, readiness_issue=ISSUE)
    status = look(desk, job)
    assert (status.state, status.reason, status.message) == (JobState.PENDING, ISSUE["reason"], ISSUE["message"])


def test_among_many_jobs_some_say_why_at_each_look_and_none_forgets(desk: Desk) -> None:
    jobs = many(desk, 6)
    for job in jobs:
        fake = desk.lepton.workspace.jobs[str(job.backend_id)]
        fake.status["state"] = "Starting"
        fake.add_replica(0, readiness_issue=ISSUE)
    for look_number in (1, 2, 3):
        before = len(desk.lepton.requests)
        seen = desk.platform.poll(jobs)
        assert len(desk.lepton.requests) - before <= 3
        told = [status for status in seen.values() if status.reason == "ConfigError"]
        assert len(told) == 2 * look_number
        jobs = [replace(job, status=seen[job.id]) for job in jobs]


def test_a_job_is_found_by_its_name_where_labels_are_not_searched(desk: Desk) -> None:
    job = desk.build()
    fake = desk.lepton.workspace.add_job(job.name)
    desk.lepton.workspace.add_job("other", labels={"tao-run": "x"})
    assert desk.platform.find(job) == fake.id
    assert desk.platform.find(desk.build()) is None


def test_a_failed_job_names_the_rank_that_failed_first(desk: Desk) -> None:
    fake, job = one(desk, state="Failed", failed=3)
    fake.spec["completions"] = 3
    for rank, (code, at) in enumerate([(137, 3000), (1, 1000), (137, 2000)]):
        stamp = fake.status["creation_time"] * 1_000_000 + at
        fake.add_replica(rank).log(f"tao-run:{job.id}: exit {code} ", at_ns=stamp)
    status = look(desk, job)
    assert (status.state, status.exit_code, status.message) == (JobState.ERROR, 1, "rank 1: exit code 1")


@pytest.mark.parametrize(("why", "reason"), [("limited", "TimeLimit"), ("stopped", "Evicted")])
def test_a_job_that_did_not_end_by_itself_says_so(desk: Desk, why: str, reason: str) -> None:
    fake, job = one(desk, state="Failed", failed=1)
    fake.add_replica(0).log(f"tao-run:{job.id}: exit 143 {why}")
    assert look(desk, job).reason == reason


@pytest.mark.parametrize("fault", [error(500, path="/logs", times=None), error(403, path="/logs"), html(path="/logs")])
def test_that_a_job_failed_is_known_without_its_log(desk: Desk, fault: Fault) -> None:
    _, job = one(desk, state="Failed", failed=1)
    desk.lepton.faults.add(fault)
    status = look(desk, job)
    assert (status.state, status.exit_code) == (JobState.ERROR, None)


FAULTS: list[tuple[Callable[[], Fault], type[TaoRunError]]] = [
    (lambda: error(401, times=None), CredentialRefused),
    (lambda: error(403, times=None), PermissionRefused),
    (lambda: error(400, times=None), BackendRejected),
    (lambda: error(422, times=None), BackendRejected),
    (lambda: error(429, times=None), RateLimited),
    (lambda: error(500, times=None), BackendFault),
    (lambda: error(502, times=None), BackendFault),
    (lambda: Fault(drop="before", times=None), BackendUnreachable),
    (lambda: html(times=None), ProtocolError),
    (lambda: Fault(status=200, body=b'{"jobs": [', times=None), ProtocolError),
]
OPERATIONS: dict[str, Callable[[Desk, Job], object]] = {
    "poll one": lambda desk, job: desk.platform.poll([job]),
    "poll many": lambda desk, job: desk.platform.poll([job, replace(job, id="b" * 16), replace(job, id="c" * 16)]),
    "find": lambda desk, job: desk.platform.find(job),
    "logs": lambda desk, job: list(desk.platform.logs(job, LogQuery())),
    "replicas": lambda desk, job: desk.platform.replicas(job),
    "cancel": lambda desk, job: desk.platform.cancel(job),
    "evidence": lambda desk, job: desk.platform.evidence(job),
    "prepare": lambda desk, job: desk.platform.prepare(desk.build(options={"node_group": "h100-pool"})),
    "resources": lambda desk, job: desk.platform.resources(job.account),
    "shapes": lambda desk, job: desk.platform.list_resource_shapes(),
}


@pytest.mark.parametrize("operation", ["poll many", "find"])
def test_a_list_that_is_none_is_an_error(desk: Desk, operation: str) -> None:
    _, job = one(desk, **RUNNING)
    desk.lepton.faults.add(document("nonsense", path="/jobs$"))
    with pytest.raises(ProtocolError):
        OPERATIONS[operation](desk, job)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("fault", "kind"), FAULTS, ids=[f"{n}-{kind.__name__}" for n, (_, kind) in enumerate(FAULTS)])
def test_every_fault_is_its_error_and_never_a_state(
    desk: Desk,
    operation: str,
    fault: Callable[[], Fault],
    kind: type[TaoRunError],
    capfd: pytest.CaptureFixture[str],
) -> None:
    _, job = one(desk, **RUNNING)
    desk.lepton.faults.add(fault())
    with pytest.raises(kind):
        OPERATIONS[operation](desk, job)
    assert "".join(capfd.readouterr()) == ""


def test_an_unknown_native_state_ends_nothing(desk: Desk) -> None:
    _, job = one(desk, state="Hibernating")
    status = look(desk, job)
    assert (status.state, status.native_state, status.state.terminal) == (JobState.UNKNOWN, "Hibernating", False)


@pytest.mark.parametrize("broken", [{"job_history": None}, {"ready": None, "active": "many"}, {"creation_time": "x"}])
def test_odd_fields_do_not_hide_the_state(desk: Desk, broken: dict[str, Any]) -> None:
    fake, job = one(desk, **RUNNING)
    fake.status.update(broken)
    fake.spec["envs"] = None
    assert look(desk, job).state is JobState.RUNNING


def test_an_invalid_item_with_a_secret_is_shown_nowhere(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = many(desk, 4)
    desk.lepton.workspace.add_job("broken", labels={"tao-run": "x"}, job_history=5).spec.update(envs="hush")
    assert len(desk.platform.poll(jobs)) == 4
    assert "hush" not in "".join(capfd.readouterr())


def test_looking_never_writes(desk: Desk) -> None:
    jobs = many(desk, 4)
    desk.platform.poll(jobs)
    desk.platform.poll(jobs[:1])
    desk.platform.replicas(jobs[0])
    assert {request.method for request in desk.lepton.requests} == {"GET"}


# -- cancel ------------------------------------------------------------------------------------------------------


def test_cancel_stops_and_keeps_record_and_log(desk: Desk) -> None:
    job = desk.submit("echo before; sleep 60")
    while observe(desk.platform, desk.store, [job])[0].status.state is not JobState.RUNNING:
        pass
    ended = cancel(desk.platform, desk.store, desk.store.get(job.id))
    assert (ended.status.state, ended.status.native_state) == (JobState.CANCELED, "Stopped")
    assert desk.lepton.workspace.jobs[str(job.backend_id)].spec["stopped"] is True
    assert desk.lepton.asked("DELETE", "/jobs/") == []


def test_a_job_that_does_not_stop_is_said_to_run(desk: Desk) -> None:
    desk.platform.verify_seconds = 0.1
    _, job = one(desk, state="Stopping")
    desk.lepton.workspace.runner.stop = lambda job: None  # type: ignore[method-assign]
    status = desk.platform.cancel(job)
    assert (status.state, status.reason) == (JobState.RUNNING, "Stopping")
    assert "not gone yet" in status.message


def test_delete_removes_the_job(desk: Desk) -> None:
    fake, job = one(desk, state="Completed", succeeded=1)
    assert desk.platform.cancel(job, delete=True).state is JobState.COMPLETE
    assert fake.status["state"] == "Deleted"
    assert desk.platform.cancel(job, delete=True).state is JobState.COMPLETE


def test_cancel_of_a_job_that_is_gone_is_no_success_in_disguise(desk: Desk) -> None:
    _, job = one(desk, **RUNNING)
    desk.lepton.workspace.jobs.clear()
    assert desk.platform.cancel(job).reason == "Removed"


# -- replicas, logs, evidence ------------------------------------------------------------------------------------


def test_replicas_as_sdk_users_know_them(desk: Desk) -> None:
    job = desk.submit()
    fake = desk.lepton.workspace.jobs[str(job.backend_id)]
    fake.finished.wait(10)
    fake.replicas.clear()
    node = {"name": "node-ip-10-50-111-24", "id": "n", "node_group_id": "pool"}
    fake.add_replica(0, node=node, cpu=2, memory_in_mb=8192, readiness_issue=[ISSUE])
    fake.add_replica(1, node=node, cpu=2, memory_in_mb=8192)
    first, second = desk.platform.get_job_replicas(job.id)
    assert first["status"]["node"]["name"] == "node-ip-10-50-111-24"
    assert first["status"]["node"]["node_group_id"] == "pool"
    assert (first["status"]["cpu"], first["status"]["memory_in_mb"]) == (2, 8192)
    assert first["status"]["readiness_issue"] == ISSUE
    assert "readiness_issue" not in second["status"]


def test_the_log_of_a_job_that_is_gone_is_an_error(desk: Desk) -> None:
    _, job = one(desk, **RUNNING)
    desk.lepton.workspace.jobs.clear()
    with pytest.raises(NoSuchJob):
        list(desk.platform.logs(job, LogQuery()))


def test_a_rank_that_has_not_started_has_an_empty_log(desk: Desk) -> None:
    _, job = one(desk, state="Queueing")
    assert list(desk.platform.logs(job, LogQuery(replica="0"))) == []
    assert list(desk.platform.logs(job, LogQuery(replica="0", tail=5))) == []


def test_an_unknown_replica_is_refused_when_following_too(desk: Desk) -> None:
    _, job = one(desk, **RUNNING)
    with pytest.raises(UsageError):
        next(desk.platform.logs(job, LogQuery(follow=True, replica="7")))


ANALYSIS = {
    "err_class": "ERR_PROGRAM",
    "suggestion": "The process ran out of host memory.",
    "job_failure_by_node_event": [{"node_event_name": "OOM", "message": "OOM encountered, victim process: python"}],
    "log_streams": None,
}


def test_evidence_of_an_out_of_memory_kill(desk: Desk) -> None:
    fake, job = one(desk, state="Failed", failed=1)
    fake.add_replica(0, node={"name": "n", "id": "n"}).log("Epoch 1")
    fake.failure_analysis = ANALYSIS
    evidence = desk.platform.evidence(job)
    assert evidence.native == ANALYSIS
    assert [line.text for line in evidence.log_tail] == ["Epoch 1"]
    assert evidence.replicas[0].node == "n"


def test_evidence_without_an_analysis_and_with_events(desk: Desk) -> None:
    fake, job = one(desk, state="Queueing")
    fake.status["creation_time"] -= 20 * 60 * 1000
    regarding = {"kind": "Pod", "name": "one-0"}
    fake.events.append(
        {
            "type": "Warning",
            "reason": "FailedScheduling",
            "regarding": regarding,
            "count": 4,
            "last_observed_time": "2026-01-02T03:04:05Z",
        }
    )
    fake.events.append({"type": None, "reason": None, "last_observed_time": "soon"})
    evidence = desk.platform.evidence(job)
    assert evidence.native is None
    event = evidence.events[0]
    assert (event.name, event.count, event.warning, event.message) == ("FailedScheduling", 4, True, "Pod one-0")
    assert event.time is not None and event.time.year == 2026
    assert float(evidence.facts["pending_minutes"]) == pytest.approx(20, abs=1)
    assert evidence.facts["capacity"] == "shared"


def test_a_program_that_vanished_was_evicted(desk: Desk) -> None:
    fake, job = one(desk, state="Failed", failed=1)
    fake.add_replica(0).log("Epoch 1", at_ns=(fake.status["creation_time"] + 5) * 1_000_000)
    fake.status["completion_time"] = fake.status["creation_time"] - 120_000
    assert "Evicted" in desk.platform.evidence(job).facts["end"]
    fake.status["completion_time"] = fake.status["creation_time"]
    assert "end" not in desk.platform.evidence(job).facts, "its last lines may still be on their way"


def test_exit_codes_of_replicas_come_from_the_log(desk: Desk) -> None:
    fake, job = one(desk, state="Failed", failed=1)
    fake.spec["completions"] = 2
    fake.add_replica(0)
    fake.add_replica(1).log(f"half a linetao-run:{job.id}: exit 9 ")
    evidence = desk.platform.evidence(job)
    assert [replica.exit_code for replica in evidence.replicas] == [None, 9]
    assert [(line.kind, line.text) for line in evidence.log_tail] == [
        ("line", "half a line"),
        ("note", "exit code 9"),
    ]
