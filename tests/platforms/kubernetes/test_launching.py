"""Submission broken off anywhere: never twice, never half, nothing left that is not found again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tao_run.errors import BackendRejected, BackendUnreachable, PermissionRefused, TaoRunError
from tao_run.jobs.model import JobState
from tao_run.platforms.kubernetes import KubernetesSDK
from tests.fakes.kubernetes import FakeKubernetes, Fault
from tests.fakes.kubernetes.api import User
from tests.platforms.kubernetes.conftest import Jobs

BELONGINGS = ("services", "secrets", "configmaps")
FULL: dict[str, Any] = {"nodes": 2, "secrets": {"K": "ACCESS_KEY"}, "payload": b"p"}


def count(cluster: FakeKubernetes) -> list[int]:
    """How many of each are there, once what is being deleted is gone."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        found = [cluster.objects.select(kind, "default") for kind in ("jobs", *BELONGINGS)]
        if not any("deletionTimestamp" in item["metadata"] for items in found for item in items):
            break
        time.sleep(0.02)
    return [len(items) for items in found]


@pytest.mark.parametrize("resource", ["jobs$", "services$", "secrets$", "configmaps$"])
@pytest.mark.parametrize("action", ["lost", "reset", 500, 503, 429])
def test_one_lost_answer_changes_nothing(jobs: Jobs, cluster: FakeKubernetes, resource: str, action: int | str) -> None:
    cluster.faults.add(Fault("POST", rf"/{resource.rstrip('$')}\?", action))
    job = jobs.start("true", **FULL)
    assert count(cluster) == [1, 1, 2, 1]
    assert jobs.ended(job).state is JobState.COMPLETE


def test_a_lost_answer_to_the_last_step(jobs: Jobs, cluster: FakeKubernetes) -> None:
    cluster.faults.add(Fault("PATCH", "/jobs/", "lost"))
    assert jobs.ended(jobs.start("true", **FULL)).state is JobState.COMPLETE


@pytest.mark.parametrize("resource", BELONGINGS)
def test_a_refused_part_leaves_nothing(jobs: Jobs, cluster: FakeKubernetes, resource: str) -> None:
    cluster.faults.add(Fault("POST", rf"/{resource}\?", 403))
    launch = jobs.prepare("true", **FULL)
    with pytest.raises(PermissionRefused):
        jobs.sdk.launch(launch)
    assert count(cluster) == [0, 0, 0, 0]


def test_what_cannot_be_removed_is_named(make_sdk: Callable[..., KubernetesSDK], cluster: FakeKubernetes) -> None:
    cluster.users["t"] = User("alice", [("default", "jobs", {"create", "get", "list"})])
    jobs = Jobs(make_sdk("t", ACCESS_KEY="key-value"))
    launch = jobs.prepare("true", secrets={"K": "ACCESS_KEY"})
    with pytest.raises(PermissionRefused, match="secrets") as caught:
        jobs.sdk.launch(launch)
    assert f"kubectl delete job -n default {launch.job.name}" in caught.value.hint


def test_a_submission_cut_off_in_the_middle_never_runs(jobs: Jobs, cluster: FakeKubernetes) -> None:
    sdk = jobs.sdk
    launch = jobs.prepare("echo never", **FULL)
    cluster.faults.add(Fault("POST", r"/secrets\?", "reset", times=99))
    with pytest.raises(BackendUnreachable):
        sdk.launch(launch)
    cluster.faults.clear()
    assert sdk.find(launch.job) is None  # its launcher may still be at it
    old = replace(launch.job, created_at=launch.job.created_at - timedelta(seconds=sdk.launch_grace + 1))
    uid = sdk.find(old)
    assert uid == cluster.objects.select("jobs", "default")[0]["metadata"]["uid"]
    found = replace(old, backend_id=uid)
    status = sdk.poll([found])[old.id]
    assert (status.state, status.reason) == (JobState.ERROR, "LaunchInterrupted")
    assert f"cancel {old.id} --delete" in status.message
    assert cluster.objects.select("pods", "default") == []
    sdk.cancel(found, delete=True)
    assert count(cluster) == [0, 0, 0, 0]


def test_a_submission_that_took_too_long_is_taken_back(jobs: Jobs, cluster: FakeKubernetes) -> None:
    launch = jobs.prepare("echo never", **FULL)
    slow = replace(launch, job=replace(launch.job, created_at=launch.job.created_at - timedelta(minutes=5)))
    with pytest.raises(BackendUnreachable, match="removed again"):
        jobs.sdk.launch(slow)
    assert count(cluster) == [0, 0, 0, 0]


def test_the_name_of_another_job_is_not_adopted(jobs: Jobs, cluster: FakeKubernetes) -> None:
    launch = jobs.prepare("true")
    theirs = {**launch.native["items"][0]}
    theirs["metadata"] = {**theirs["metadata"], "labels": {"tao-run/job-id": "0" * 16}}
    cluster.objects.create("jobs", "default", theirs)
    with pytest.raises(BackendRejected, match="already exists"):
        jobs.sdk.launch(launch)
    assert jobs.sdk.find(launch.job) is None


@pytest.mark.parametrize(
    ("status", "error"), [(401, "CredentialRefused"), (403, "PermissionRefused"), (422, "BackendRejected")]
)
def test_a_refusal_is_one_line(jobs: Jobs, cluster: FakeKubernetes, status: int, error: str) -> None:
    cluster.faults.add(Fault("POST", r"/jobs\?", status))
    with pytest.raises(TaoRunError) as caught:
        jobs.sdk.launch(jobs.prepare("true"))
    assert type(caught.value).__name__ == error
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("action", ["reset", "hang-up", "html", "cut", 500, 502, 429])
def test_no_answer_is_no_state(jobs: Jobs, cluster: FakeKubernetes, action: int | str) -> None:
    job = jobs.start("true")
    jobs.ended(job)
    cluster.faults.add(Fault("GET", "/jobs", "reset" if action == "hang-up" else action, times=9))
    with pytest.raises(BackendUnreachable):
        jobs.sdk.poll([job])


def test_slow_down_is_passed_on(jobs: Jobs, cluster: FakeKubernetes) -> None:
    from tao_run.errors import RateLimited

    job = jobs.start("true")
    cluster.calls.clear()
    cluster.faults.add(Fault("GET", "/jobs", 429, headers={"Retry-After": "17"}))
    with pytest.raises(RateLimited) as caught:
        jobs.sdk.poll([job])
    assert caught.value.retry_after == 17


def test_a_secret_in_an_answer_is_not_shown(jobs: Jobs, cluster: FakeKubernetes) -> None:
    def admit(resource: str, obj: dict[str, Any]) -> None:
        from tests.fakes.kubernetes.objects import ApiError

        if resource == "secrets":
            raise ApiError(422, "Invalid", "bad value AKIA-very-secret in data")

    cluster.objects.admit.append(admit)
    with pytest.raises(BackendRejected) as caught:
        jobs.sdk.launch(jobs.prepare("true", secrets={"K": "ACCESS_KEY"}))
    assert "AKIA" not in f"{caught.value.message} {caught.value.hint}"
    assert "[redacted]" in caught.value.message


def test_quota_is_no_question_of_rights(jobs: Jobs, cluster: FakeKubernetes) -> None:
    def admit(resource: str, obj: dict[str, Any]) -> None:
        from tests.fakes.kubernetes.objects import ApiError

        if resource == "jobs":
            raise ApiError(
                403, "Forbidden", 'jobs "x" is forbidden: exceeded quota: team, requested: count/jobs.batch=1'
            )

    cluster.objects.admit.append(admit)
    with pytest.raises(BackendRejected, match="exceeded quota"):
        jobs.sdk.launch(jobs.prepare("true"))


def test_another_cluster_behind_the_context_is_not_a_removed_job(
    jobs: Jobs, make_sdk: Callable[..., KubernetesSDK]
) -> None:
    job = jobs.start("sleep 20")
    with FakeKubernetes() as other:
        elsewhere = replace(job, account=job.account.replace(job.account.rpartition(" ")[2], other.url))
        gone = replace(elsewhere, id="f" * 16)
        with pytest.raises(BackendUnreachable, match="now points to"):
            make_sdk().poll([gone])
    assert make_sdk().poll([elsewhere])[job.id].state is not JobState.CANCELED
    jobs.sdk.cancel(job, delete=True)
