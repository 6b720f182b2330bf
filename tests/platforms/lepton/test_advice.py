"""From what Lepton shows to what the user is told: the failures of the platform, each with its advice."""

from __future__ import annotations

from typing import Any

from tao_run.analysis import analyze
from tao_run.jobs.model import Job
from tests.fakes.lepton import FakeJob
from tests.platforms.lepton.conftest import Desk


def one(desk: Desk, **status: Any) -> tuple[FakeJob, Job]:
    fake = desk.lepton.workspace.add_job("one", **status)
    return fake, desk.adopt(fake)


def told(desk: Desk, job: Job) -> dict[str, Any]:
    analysis = analyze(desk.platform.evidence(job))
    assert analysis is not None
    return analysis.to_dict()


def issue(reason: str, message: str) -> dict[str, Any]:
    return {"node": {"name": "node-a", "id": "node-a"}, "readiness_issue": {"reason": reason, "message": message}}


def test_waiting_for_a_node_for_more_than_15_minutes(desk: Desk) -> None:
    fake, job = one(desk, state="Queueing")
    fake.status["creation_time"] -= 16 * 60 * 1000
    found = told(desk, job)
    assert found["err_class"] == "ERR_INFRA"
    assert "shape" in found["suggestion"] and "node group" in found["suggestion"]


def test_waiting_for_a_node_for_a_while_is_no_failure(desk: Desk) -> None:
    _, job = one(desk, state="Queueing")
    assert analyze(desk.platform.evidence(job)) is None


def test_an_image_that_cannot_be_pulled(desk: Desk) -> None:
    fake, job = one(desk, state="Starting")
    fake.add_replica(0, **issue("ConfigError", "Failed to pull image due to invalid image pull secret credentials"))
    assert "NGC_KEY" in told(desk, job)["suggestion"]


def test_a_bad_node(desk: Desk) -> None:
    fake, job = one(desk, state="Starting")
    fake.add_replica(0, **issue("ConfigError", "Mount point not found"))
    found = told(desk, job)
    assert found["err_class"] == "ERR_INFRA"
    assert "cancel" in found["suggestion"].lower()


def test_an_eviction_is_not_the_programs_fault(desk: Desk) -> None:
    fake, job = one(desk, state="Failed", failed=1)
    replica = fake.add_replica(0, node={"name": "n", "id": "n"})
    replica.log("Epoch 3")
    replica.log(f"tao-run:{job.id}: exit 143 stopped")
    found = told(desk, job)
    assert found["err_class"] == "ERR_INFRA"
    assert (found["rule"], found["retryable"]) == ("evicted", True)


def test_the_time_limit_is_named(desk: Desk) -> None:
    fake, job = one(desk, state="Failed", failed=1)
    fake.add_replica(0).log(f"tao-run:{job.id}: exit 124 limited")
    assert told(desk, job)["rule"] == "time-limit"


def test_leptons_own_analysis_leads(desk: Desk) -> None:
    fake, job = one(desk, state="Failed", failed=1)
    fake.failure_analysis = {
        "err_class": "ERR_PROGRAM",
        "suggestion": "Reduce the batch size.",
        "job_failure_by_node_event": [{"node_event_name": "OOM", "message": "OOM encountered, victim process: python"}],
        "log_streams": [{"stream": {"replica": "r"}, "values": [["1", "torch.OutOfMemoryError"]]}],
    }
    found = told(desk, job)
    assert (found["err_class"], found["suggestion"]) == ("ERR_PROGRAM", "Reduce the batch size.")
    assert found["job_failure_by_node_event"][0]["node_event_name"] == "OOM"
