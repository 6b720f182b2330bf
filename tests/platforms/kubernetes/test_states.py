"""The state table, walked whole, and the cases in which a Job's pods tell different stories."""

from __future__ import annotations

from typing import Any

import pytest

from tao_run.jobs.model import JobState
from tao_run.platforms.kubernetes import names, pods, states


def job(*conditions: str, reason: str = "", **fields: Any) -> dict[str, Any]:
    entries = [{"type": kind, "status": "True", "reason": reason, "message": f"says {kind}"} for kind in conditions]
    meta = {"name": "j", "uid": "u", **fields.pop("meta", {})}
    status = {"conditions": entries, **fields.pop("status", {})}
    return {"metadata": meta, "spec": {"completions": fields.pop("completions", 1), **fields}, "status": status}


def pod(phase: str = "Running", rank: int = 0, created: str = "2026-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    state = more.pop("state", {"running": {}} if phase == "Running" else None)
    container = [{"name": names.CONTAINER, "state": state, **more.pop("container", {})}] if state else []
    meta = {"name": f"p{rank}", "annotations": {names.INDEX: str(rank)}, "creationTimestamp": created}
    meta.update(more.pop("meta", {}))
    return {
        "metadata": meta,
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "containerStatuses": container, **more},
    }


def ended(code: int, rank: int = 0, reason: str = "Error", finished: str = "2026-01-01T00:01:00Z", **more: Any) -> Any:
    terminated = {"exitCode": code, "reason": reason, "finishedAt": finished}
    return pod("Failed" if code else "Succeeded", rank, state={"terminated": terminated}, **more)


def waiting(reason: str, message: str = "", rank: int = 0) -> dict[str, Any]:
    return pod("Pending", rank, state={"waiting": {"reason": reason, "message": message}})


@pytest.mark.parametrize(("condition", "state"), states.CONDITIONS.items())
def test_every_condition(condition: str, state: JobState) -> None:
    suspended = {"suspend": True} if condition == "Suspended" else {}
    assert states.status_of(job(condition, **suspended), []).state is state


def test_the_table_has_every_condition_of_batch_v1() -> None:
    assert set(states.CONDITIONS) == {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended"}


@pytest.mark.parametrize(("phase", "state"), states.PHASES.items())
def test_every_phase(phase: str, state: JobState) -> None:
    native = "Pending" if phase == "Terminating" else phase
    meta = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if phase == "Terminating" else {}
    found = states.status_of(job(), [pod(native, meta=meta)])
    assert found.state is state
    assert found.native_state


def test_a_phase_nobody_knows_is_unknown_and_shown() -> None:
    found = states.status_of(job(), [pod("Hibernating")])
    assert (found.state, found.native_state) == (JobState.UNKNOWN, "Hibernating")


def test_a_condition_nobody_knows_decides_nothing() -> None:
    assert states.status_of(job("Frozen"), [pod()]).state is JobState.RUNNING


def test_complete_counts_though_a_pod_failed_before() -> None:
    found = states.status_of(job("Complete", status={"failed": 1, "succeeded": 1}), [ended(1), ended(0)])
    assert (found.state, found.exit_code) == (JobState.COMPLETE, 0)


def test_a_failed_pod_with_retries_left_is_running() -> None:
    retried = ended(1, meta={"creationTimestamp": "2026-01-01T00:00:00Z"})
    now = pod(created="2026-01-01T00:05:00Z")
    assert states.status_of(job(status={"failed": 1, "active": 1}), [retried, now]).state is JobState.RUNNING


def test_an_evicted_pod_beside_its_replacement_is_history() -> None:
    evicted = pod("Failed", reason="Evicted", message="The node was low on resource: memory.", state=None)
    found = states.status_of(job(), [evicted, pod(created="2026-01-01T00:05:00Z")])
    assert (found.state, found.reason) == (JobState.RUNNING, "")


def test_an_evicted_pod_that_failed_the_job_is_the_reason() -> None:
    evicted = pod("Failed", reason="Evicted", message="The node was low on resource: memory.")
    found = states.status_of(job("Failed", reason="BackoffLimitExceeded"), [evicted])
    assert (found.state, found.reason) == (JobState.ERROR, "Evicted")
    assert "low on resource" in found.message


def test_one_of_four_done_is_running() -> None:
    found = states.status_of(job(completions=4), [ended(0, 0), pod(rank=1), pod(rank=2), pod(rank=3)])
    assert (found.state, found.ready, found.total) == (JobState.RUNNING, 3, 4)


def test_the_first_to_fail_is_named_not_its_victims() -> None:
    failed = [ended(137, 0, finished="2026-01-01T00:00:59Z"), ended(1, 1), ended(137, 2)]
    found = states.status_of(job("Failed", reason="BackoffLimitExceeded", completions=3), failed)
    assert (found.exit_code, found.message) == (1, "rank 1 exit code 1")


def test_an_oom_kill_is_no_victim() -> None:
    failed = [ended(143, 0), ended(137, 1, reason="OOMKilled"), ended(137, 2)]
    found = states.status_of(job("Failed", completions=3), failed)
    assert (found.reason, found.exit_code) == ("OOMKilled", 137)
    assert "rank 1" in found.message


def test_oom_in_the_last_state_outranks_crash_loop() -> None:
    looping = pod(
        "Running",
        state={"waiting": {"reason": "CrashLoopBackOff"}},
        container={"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
    )
    assert pods.issue(looping)[0] == "OOMKilled"


@pytest.mark.parametrize(
    "reason",
    ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "RunContainerError"],
)
def test_what_keeps_a_pod_from_starting_is_pending_with_reason(reason: str) -> None:
    found = states.status_of(job(status={"active": 1}), [waiting(reason, "because")])
    assert (found.state, found.reason, found.message) == (JobState.PENDING, reason, "because")


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_healthy_start_has_no_issue(reason: str) -> None:
    found = states.status_of(job(), [waiting(reason)])
    assert (found.state, found.reason, found.message) == (JobState.PENDING, reason, "")
    assert pods.issue(waiting(reason)) == ("", "")


def test_unschedulable_comes_from_the_pods_condition() -> None:
    entry = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available"}
    lost = pod("Pending", conditions=[entry])
    del lost["spec"]["nodeName"]
    found = states.status_of(job(), [lost])
    assert (found.state, found.reason, found.message) == (JobState.PENDING, "Unschedulable", "0/2 nodes are available")


def test_a_rank_that_waits_is_told_while_others_run() -> None:
    found = states.status_of(job(completions=2), [pod(rank=0), waiting("ImagePullBackOff", "no such image", rank=1)])
    assert (found.state, found.reason, found.ready) == (JobState.RUNNING, "PodsPending", 1)
    assert "rank 1" in found.message
    assert "no such image" in found.message


def test_the_worst_issue_of_many_is_told() -> None:
    many = [
        waiting("ContainerCreating", rank=0),
        waiting("ImagePullBackOff", rank=1),
        waiting("SchedulingGated", rank=2),
    ]
    assert states.status_of(job(completions=3), many).reason == "ImagePullBackOff"


def test_deadline_is_the_reason_though_pods_were_killed() -> None:
    found = states.status_of(job("Failed", reason="DeadlineExceeded"), [ended(137)])
    assert (found.state, found.reason, found.exit_code) == (JobState.ERROR, "DeadlineExceeded", 137)


def test_a_job_being_removed_still_runs() -> None:
    found = states.status_of(job(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), [pod()])
    assert (found.state, found.reason) == (JobState.RUNNING, "Terminating")


def test_a_lost_node_is_unknown_with_its_name() -> None:
    found = states.status_of(job(), [pod("Unknown", reason="NodeLost", message="Node n1 is unresponsive")])
    assert (found.state, found.message) == (JobState.UNKNOWN, "Node n1 is unresponsive")


def test_a_sidecar_is_not_the_job() -> None:
    both = pod(state={"terminated": {"exitCode": 3, "reason": "Error"}})
    both["status"]["containerStatuses"].insert(0, {"name": "istio-proxy", "state": {"running": {}}})
    done = pods.ended(both)
    assert done is not None
    assert (done.exit_code, pods.is_running(both)) == (3, False)
