"""Answers of a shape that the API does not have: an error, or what is left of them; never a state, never a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tao_run.errors import BackendUnreachable, PermissionRefused, ProtocolError, TaoRunError, Unavailable
from tao_run.jobs.model import Job, JobState, JobStatus, LogQuery
from tao_run.platforms.lepton.discovery import allowed_prefixes
from tao_run.platforms.lepton.documents import moment, number
from tao_run.platforms.lifecycle import Unconfirmed, cancel, observe
from tests.fakes.lepton import Fault, document, error, html
from tests.platforms.lepton.conftest import Desk

JUNK = [None, 5, "x", {}, {"metadata": None}, {"status": 5}, {"status": {"node": "n", "readiness_issue": "foo"}}]
NOT_A_JOB: list[Any] = [
    None,
    5,
    "hello",
    [],
    {},
    {"jobs": None},
    JUNK,
    {"metadata": None, "spec": None, "status": None},
    {"metadata": {"id": "another-1234"}, "status": {"state": "Stopped"}},
]
ODD_PARTS: list[dict[str, Any]] = [
    {"spec": 7, "status": "x"},
    {"spec": {"completions": "a"}, "status": {"state": ["x"], "ready": "q", "job_history": {"a": 1}}},
    {"spec": {"completions": 1e300}, "status": {"state": "Running", "ready": 1e300, "creation_time": 9e18}},
    {"spec": {"completions": -1}, "status": {"state": "Archived", "ready": -1, "succeeded": None}},
    {"spec": {"affinity": 3}, "status": {"state": "Failed", "creation_time": -5, "job_history": [3]}},
]
LOOKS: dict[str, Callable[[Desk, Job], object]] = {
    "poll": lambda desk, job: desk.platform.poll([job]),
    "logs": lambda desk, job: list(desk.platform.logs(job, LogQuery())),
    "replica's log": lambda desk, job: list(desk.platform.logs(job, LogQuery(tail=2, replica="0"))),
    "replicas": lambda desk, job: desk.platform.replicas(job),
    "cancel": lambda desk, job: desk.platform.cancel(job),
    "delete": lambda desk, job: desk.platform.cancel(job, delete=True),
    "evidence": lambda desk, job: desk.platform.evidence(job),
    "find": lambda desk, job: desk.platform.find(job),
    "resources": lambda desk, job: desk.platform.resources(job.account),
    "shapes": lambda desk, job: desk.platform.list_resource_shapes(),
    "volumes": lambda desk, job: desk.platform.get_volumes(),
}


def running(desk: Desk) -> Job:
    fake = desk.lepton.workspace.add_job("one", state="Running", ready=1, active=1)
    fake.add_replica(0, node={"name": "n"}).log("hello")
    return desk.adopt(fake, status=JobStatus(JobState.RUNNING, native_state="Running"))


@pytest.mark.parametrize("answer", NOT_A_JOB, ids=repr)
@pytest.mark.parametrize("look", ["poll", "logs", "replicas", "cancel", "delete", "evidence"])
def test_what_is_not_this_job_says_nothing_of_it(desk: Desk, answer: Any, look: str) -> None:
    job = running(desk)
    desk.lepton.faults.add(document(answer, path=f"/jobs/{job.backend_id}$", times=None))
    with pytest.raises(ProtocolError):
        LOOKS[look](desk, job)


@pytest.mark.parametrize("status", [204, 302])
def test_no_answer_is_no_removed_job(desk: Desk, status: int) -> None:
    job = running(desk)
    desk.lepton.faults.add(Fault(path="/jobs/", status=status, times=None))
    with pytest.raises(ProtocolError):
        desk.platform.poll([job])


@pytest.mark.parametrize("parts", ODD_PARTS, ids=repr)
@pytest.mark.parametrize("look", ["poll", "logs", "replicas", "evidence"])
def test_odd_parts_of_a_job_break_nothing(desk: Desk, parts: dict[str, Any], look: str) -> None:
    job = running(desk)
    odd = {"metadata": {"id": job.backend_id, "labels": [1]}, **parts}
    desk.lepton.faults.add(document(odd, path=f"/jobs/{job.backend_id}$", times=None))
    LOOKS[look](desk, job)
    desk.store.add(job, "here:1:1")
    desk.store.launched(job.id, str(job.backend_id))
    seen = observe(desk.platform, desk.store, [desk.store.get(job.id)])[0].status
    assert seen.state.terminal is (parts["status"] != "x" and parts["status"]["state"] == "Failed")


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("answer", [JUNK, {"jobs": JUNK}, {"data": JUNK}, {"data": {"result": JUNK}}, "x", 5], ids=repr)
def test_odd_answers_to_everything_are_no_crash(desk: Desk, look: str, answer: Any) -> None:
    job = running(desk)
    desk.platform.verify_seconds = 0.0
    desk.lepton.faults.add(
        document(answer, path="/(replicas|events|logs|failure-analysis|shapes|.*groups)$", times=None)
    )
    desk.lepton.faults.add(document(answer, path="/(jobs|storage-permission/.*|usersecrets)$", times=None))
    try:
        LOOKS[look](desk, job)
    except TaoRunError as fault:
        assert isinstance(fault, ProtocolError)


def test_jobs_that_no_list_shows_are_not_said_to_be_gone(desk: Desk) -> None:
    """`{"jobs": null}` for a thousand jobs: some are asked for one by one, nothing is said of the others."""
    model = running(desk)
    jobs = []
    for index in range(60):
        fake = desk.lepton.workspace.add_job(f"j{index}", state="Running", ready=1)
        jobs.append(replace(model, id=f"{index:016x}", backend_id=fake.id))
    desk.lepton.faults.add(document({"jobs": None}, path="/jobs$", times=None))
    seen = desk.platform.poll(jobs)
    assert 0 < len(seen) < len(jobs)
    assert {status.state for status in seen.values()} == {JobState.RUNNING}
    looked = [replace(job, status=seen.get(job.id, job.status)) for job in jobs]
    assert not seen.keys() & desk.platform.poll(looked).keys()


def test_a_job_accepted_a_moment_ago_may_not_be_listed_yet(desk: Desk) -> None:
    job = replace(running(desk), status=JobStatus(JobState.PENDING))
    desk.lepton.workspace.jobs.clear()
    assert desk.platform.poll([job])[job.id].state is JobState.PENDING
    old = replace(job, created_at=job.created_at - timedelta(minutes=2))
    assert desk.platform.poll([old])[job.id].reason == "Removed"


def test_a_rule_without_a_path_allows_nothing() -> None:
    assert allowed_prefixes([{}, {"path_prefix": 5}], "ann") == []
    assert allowed_prefixes([{"path_prefix": "/data", "allowed_users": "ann"}], "ann") == ["/data"]


def test_numbers_that_are_none_are_zero() -> None:
    odd: list[Any] = [None, "7", [], float("inf"), float("nan"), 1e300, -3]
    assert [number(value) for value in odd] == [0] * len(odd)
    assert moment(float("inf")) is None


# -- the answer to a submission ------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", NOT_A_JOB[:-1], ids=repr)
def test_an_odd_answer_to_a_submission_leaves_it_to_be_found_out(desk: Desk, answer: Any) -> None:
    desk.lepton.faults.add(document(answer, method="POST", path="/jobs$"))
    with pytest.raises(Unconfirmed):
        desk.submit(secrets={"HF": "HF_TOKEN"})
    assert desk.lepton.workspace.secrets != {}  # the job may exist


@pytest.mark.parametrize("path", ["/usersecrets$", "/imagepullsecrets$"])
@pytest.mark.parametrize(
    "fault",
    [lambda: error(500), lambda: error(429), html, lambda: Fault(drop="before"), lambda: Fault(drop="after")],
)
def test_without_its_secrets_a_job_is_surely_not_created(desk: Desk, path: str, fault: Callable[[], Fault]) -> None:
    broken = fault()
    broken.method, broken.path = "POST", path
    desk.lepton.faults.add(broken)
    with pytest.raises(Unavailable, match="secrets could not be made") as caught:
        desk.submit(secrets={"HF": "HF_TOKEN"})
    assert caught.value.exit_code == BackendUnreachable.exit_code
    assert desk.lepton.asked("POST", "/jobs") == []
    assert (desk.lepton.workspace.secrets, desk.lepton.workspace.pull_secrets) == ({}, {})
    assert desk.store.recent()[0].status.reason == "SubmitRefused"


def test_a_job_turned_away_for_now_was_not_created(desk: Desk) -> None:
    desk.lepton.faults.add(error(429, method="POST", path="/jobs$"))
    with pytest.raises(Unavailable, match="was not created"):
        desk.submit(secrets={"HF": "HF_TOKEN"})
    assert (desk.lepton.workspace.secrets, desk.lepton.workspace.pull_secrets) == ({}, {})


def test_secrets_that_stay_behind_are_told(desk: Desk) -> None:
    desk.lepton.faults.add(error(422, method="POST", path="/jobs$"))
    desk.lepton.faults.add(error(403, method="GET", path="/usersecrets"))
    with pytest.raises(TaoRunError):
        desk.submit(secrets={"HF": "HF_TOKEN"})
    assert any("may still be in the workspace" in note for note in desk.notes)
    assert desk.lepton.workspace.pull_secrets == {}


@pytest.mark.parametrize("more", [{}, {"options": {"resource_shape": "x"}}, {"options": {"node_group": "h100-pool"}}])
def test_a_wrong_workspace_is_named_by_every_call(desk: Desk, more: dict[str, Any]) -> None:
    desk.lepton.faults.add(error(404, "no such workspace", times=None))
    with pytest.raises(PermissionRefused, match="no workspace ws1"):
        desk.submit(**more)
    with pytest.raises(PermissionRefused, match="no workspace ws1"):
        desk.platform.resources()


# -- replicas of a job that has ended --------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "codes"), [("Completed", [0, 0]), ("Failed", [None, 3]), ("Stopped", [None, None])])
def test_replicas_of_an_ended_job_do_not_run(desk: Desk, state: str, codes: list[int | None]) -> None:
    fake = desk.lepton.workspace.add_job("one", state=state)
    job = desk.adopt(fake)
    for rank in range(2):
        replica = fake.add_replica(rank, node={"name": "n"})
        if state == "Failed" and rank == 1:
            replica.log(f"tao-run:{job.id}: exit 3 ")
    found = desk.platform.replicas(job)
    assert [item.exit_code for item in found] == codes
    assert {(item.phase, item.ready) for item in found} == {("Ended", False)}


def test_a_submission_killed_before_the_job_was_asked_for_is_cleared_up_by_cancel(desk: Desk) -> None:
    """The record and the secrets are there, the job is not, and the process that was to ask for it is dead."""
    job = replace(desk.build(secrets={"HF": "HF_TOKEN"}), created_at=desk.platform.clock.now() - timedelta(minutes=2))
    desk.store.add(job, "elsewhere:1:1")
    workspace = desk.platform.workspace(job.account)
    workspace.create_secrets(job.id, {"HF_TOKEN": "value"})
    workspace.create_pull_secret(job.id, "key")
    ended = cancel(desk.platform, desk.store, job)
    assert (ended.status.state, ended.status.reason) == (JobState.ERROR, "NeverLaunched")
    assert desk.platform.settle(ended) == []
    assert (desk.lepton.workspace.secrets, desk.lepton.workspace.pull_secrets) == ({}, {})


def test_secrets_are_given_back_also_where_the_credentials_are_not_set_any_more(
    desk: Desk, make_desk: Callable[..., Desk]
) -> None:
    job = desk.submit()
    assert desk.lepton.workspace.pull_secrets != {}
    assert make_desk(NGC_KEY="").platform.settle(job) == []
    assert desk.lepton.workspace.pull_secrets == {}
