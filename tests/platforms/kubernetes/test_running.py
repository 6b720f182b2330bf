"""Jobs that really run on the wire-level fake: environment, exit codes, states, several nodes, mounts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tao_run.errors import PermissionRefused, UsageError
from tao_run.jobs.model import JobState, LogQuery
from tao_run.platforms.kubernetes import KubernetesSDK
from tests.fakes.kubernetes import FakeKubernetes
from tests.fakes.kubernetes.api import User
from tests.platforms.kubernetes.conftest import Jobs


def text_of(sdk: KubernetesSDK, job: object, **query: object) -> list[str]:
    return [line.text for line in sdk.logs(job, LogQuery(**query)) if line.kind == "line"]  # type: ignore[arg-type]


def test_a_job_runs_to_its_end(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start("echo one; echo two >&2; sleep 0.2")
    status = jobs.ended(job)
    assert (status.state, status.exit_code, status.total) == (JobState.COMPLETE, 0, 1)
    assert text_of(sdk, job) == ["one", "two"]


@pytest.mark.parametrize("code", [1, 3, 137, 255])
def test_the_exit_code_is_the_commands_own(jobs: Jobs, code: int) -> None:
    status = jobs.ended(jobs.start(f"exit {code}"))
    assert (status.state, status.exit_code) == (JobState.ERROR, code)
    assert str(code) in status.message


AWKWARD = "a, b \"c\" 'd' $HOME $(HOSTNAME) $$ % = \\ \n second line ünï {x}"


def test_values_and_command_arrive_untouched(jobs: Jobs, sdk: KubernetesSDK) -> None:
    command = 'printf "%s" "$AWKWARD" | base64 -w0; echo; echo "$(echo sub) $$" | sed "s/$$/PID/"'
    job = jobs.start(command, env={"AWKWARD": AWKWARD})
    assert jobs.ended(job).state is JobState.COMPLETE
    import base64

    encoded, substituted = text_of(sdk, job)
    assert base64.b64decode(encoded).decode() == AWKWARD
    assert substituted == "sub PID"


def test_secrets_travel_by_reference_only(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    launch = jobs.prepare("true", secrets={"AWS_SECRET_ACCESS_KEY": "SECRET_KEY"})
    assert "s3cr3t" not in json.dumps(launch.native)
    job = jobs.start(
        'echo "${#AWS_SECRET_ACCESS_KEY}:$AWS_SECRET_ACCESS_KEY"', secrets={"AWS_SECRET_ACCESS_KEY": "SECRET_KEY"}
    )
    assert jobs.ended(job).state is JobState.COMPLETE
    assert text_of(sdk, job) == ["20:s3cr3t$(HOME)$$value"]
    carriers = {
        call.path.rsplit("/", 1)[1]
        for call in cluster.calls
        if call.method == "POST" and "czNjcj" in json.dumps(call.body)
    }
    assert carriers == {"secrets"}
    assert not any("s3cr3t" in json.dumps(call.body) for call in cluster.calls)


def test_everything_of_a_job_goes_with_it(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    job = jobs.start("sleep 30", nodes=2, secrets={"TOKEN": "ACCESS_KEY"}, payload=b"payload" * 1000)
    jobs.until(job, lambda s: s.ready == 2)
    kinds = ("services", "secrets", "configmaps")
    assert [len(cluster.objects.select(kind, "default")) for kind in kinds] == [1, 2, 1]
    assert sdk.cancel(job, delete=True).state is JobState.CANCELED
    assert [len(cluster.objects.select(kind, "default")) for kind in ("jobs", "pods", *kinds)] == [0, 0, 0, 0, 0]


def test_several_nodes_meet(jobs: Jobs, sdk: KubernetesSDK) -> None:
    command = 'echo "$NODE_RANK/$NNODES $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $NUM_GPU_PER_NODE"'
    job = jobs.start(command, nodes=3, gpus=2)
    assert jobs.ended(job).state is JobState.COMPLETE
    first = f"{job.name}-0.{job.name}:29500 2"
    assert sorted(text_of(sdk, job)) == [f"{rank}/3 3 {first}" for rank in range(3)]
    assert {line.rank for line in sdk.logs(job, LogQuery())} == {0, 1, 2}
    assert [(r.rank, r.phase, r.exit_code) for r in sdk.replicas(job)] == [(rank, "Succeeded", 0) for rank in range(3)]


def test_the_first_rank_to_fail_is_named(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start(
        "if [ $NODE_RANK = 1 ]; then sleep 0.3; exit 7; fi; trap 'exit 143' TERM; sleep 20 & wait", nodes=3
    )
    status = jobs.ended(job)
    assert (status.state, status.exit_code) == (JobState.ERROR, 7)
    assert "rank 1" in status.message


def test_one_of_four_that_is_done_is_no_complete_job(jobs: Jobs) -> None:
    job = jobs.start("[ $NODE_RANK = 0 ] || sleep 2", nodes=4)
    seen = jobs.until(job, lambda s: s.ready == 3)
    assert seen.state is JobState.RUNNING


def test_a_large_runner_is_staged(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start('sha256sum < "$TAO_RUN_PAYLOAD"', payload=b"\x00\xffz" * 60_000)
    assert jobs.ended(job).state is JobState.COMPLETE
    import hashlib

    assert text_of(sdk, job)[0].split()[0] == hashlib.sha256(b"\x00\xffz" * 60_000).hexdigest()


def test_one_directory_at_two_places(jobs: Jobs, sdk: KubernetesSDK, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("there\n")
    base = f"/tmp/tao-run-test-{tmp_path.name}"
    paths = f"{tmp_path}/data:{base}/a,{tmp_path}/data:{base}/b:ro"
    job = jobs.start(f"cat {base}/a/file {base}/b/file; echo new > {base}/a/written", host_path=paths)
    assert jobs.ended(job).state is JobState.COMPLETE
    assert text_of(sdk, job) == ["there", "there"]
    assert (tmp_path / "data" / "written").read_text() == "new\n"


def test_a_claim_keeps_what_is_written(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    cluster.objects.create(
        "persistentvolumeclaims", "default", {"metadata": {"name": "work"}, "status": {"phase": "Bound"}}
    )
    mount = "/tmp/tao-run-test-claim"
    first = jobs.start(f"echo kept > {mount}/x", pvc=f"work/sub:{mount}")
    assert jobs.ended(first).state is JobState.COMPLETE
    second = jobs.start(f"cat {mount}/sub/x", pvc=f"work:{mount}")
    assert jobs.ended(second).state is JobState.COMPLETE
    assert text_of(sdk, second) == ["kept"]


def test_a_missing_image_is_pending_with_its_reason(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start(image="registry.test/missing:1")
    status = jobs.until(job, lambda s: s.reason == "ImagePullBackOff")
    assert status.state is JobState.PENDING
    assert "registry.test/missing:1" in status.message
    assert sdk.replicas(job)[0].issue_reason == "ImagePullBackOff"
    events = sdk.evidence(job).events
    assert any(event.warning and "manifest unknown" in event.message for event in events)


def test_more_gpus_than_a_node_has(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start(gpus=16)
    status = jobs.until(job, lambda s: s.reason == "Unschedulable")
    assert status.state is JobState.PENDING
    assert "Insufficient nvidia.com/gpu" in status.message
    assert sdk.replicas(job)[0].issue_reason == "Unschedulable"
    (row,) = sdk.get_job_replicas(job.id)
    assert row["status"]["readiness_issue"]["reason"] == "Unschedulable"


def test_a_pod_that_cannot_be_configured(jobs: Jobs) -> None:
    job = jobs.start(pvc="nowhere:/data")
    status = jobs.until(job, lambda s: s.reason == "CreateContainerConfigError")
    assert (status.state, "nowhere" in status.message) == (JobState.PENDING, True)


def test_what_keeps_a_job_from_making_pods(jobs: Jobs, cluster: FakeKubernetes) -> None:
    cluster.control.enabled = False
    job = jobs.start()
    assert jobs.sdk.poll([job])[job.id].reason == "NoPods"
    message = 'Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest"'
    cluster.objects.event(cluster.objects.get("jobs", "default", job.name), "FailedCreate", message)
    older = replace(job, created_at=job.created_at - timedelta(seconds=11))
    status = jobs.sdk.poll([older])[job.id]
    assert (status.state, status.reason, status.message) == (JobState.PENDING, "FailedCreate", message)


def test_out_of_memory_is_the_reason(jobs: Jobs, cluster: FakeKubernetes) -> None:
    cluster.kubelet.verdict = lambda pod, code: {"reason": "OOMKilled"} if code == 137 else None
    status = jobs.ended(jobs.start("kill -9 $$"))
    assert (status.state, status.reason, status.exit_code) == (JobState.ERROR, "OOMKilled", 137)


def test_the_time_limit(jobs: Jobs) -> None:
    status = jobs.ended(jobs.start("sleep 30", max_time=1))
    assert (status.state, status.reason) == (JobState.ERROR, "DeadlineExceeded")


def test_kueue_holds_a_job_until_it_is_admitted(jobs: Jobs, cluster: FakeKubernetes) -> None:
    job = jobs.start("true", queue="team", secrets={"TOKEN": "ACCESS_KEY"})
    owner = [{"uid": job.backend_id, "kind": "Job", "name": job.name, "apiVersion": "batch/v1"}]
    said = {"type": "QuotaReserved", "status": "False", "message": "insufficient unused quota for nvidia.com/gpu"}
    workload = {"metadata": {"name": "w", "ownerReferences": owner}, "status": {"conditions": [said]}}
    cluster.objects.create("workloads", "default", workload)
    status = jobs.until(job, lambda s: s.reason == "Queued")
    assert (status.state, "insufficient unused quota" in status.message) == (JobState.PENDING, True)
    cluster.objects.patch("jobs", "default", job.name, {"spec": {"suspend": False}})
    assert jobs.ended(job).state is JobState.COMPLETE


def test_a_job_suspended_by_hand_is_paused(jobs: Jobs, cluster: FakeKubernetes) -> None:
    job = jobs.start("sleep 0.5")
    cluster.objects.patch("jobs", "default", job.name, {"spec": {"suspend": True}})
    assert jobs.until(job, lambda s: s.state is JobState.PAUSED).reason == "Suspended"
    cluster.objects.patch("jobs", "default", job.name, {"spec": {"suspend": False}})
    assert jobs.ended(job).state is JobState.COMPLETE


def test_a_job_removed_by_others(jobs: Jobs, cluster: FakeKubernetes) -> None:
    job = jobs.start("sleep 30")
    cluster.objects.delete("jobs", "default", job.name, {})
    status = jobs.until(job, lambda s: s.native_state == "Removed")
    assert (status.state, status.reason) == (JobState.CANCELED, "Removed")


def test_a_job_removed_after_its_end_is_what_it_was(jobs: Jobs, cluster: FakeKubernetes) -> None:
    job = jobs.start("exit 4")
    jobs.ended(job)
    cluster.objects.delete("jobs", "default", job.name, {})
    assert jobs.sdk.poll([job])[job.id].state is JobState.ERROR


def test_an_expired_job_is_unknown_not_canceled(jobs: Jobs, cluster: FakeKubernetes) -> None:
    job = jobs.start("true", ttl=60)
    cluster.objects.delete("jobs", "default", job.name, {})
    old = replace(job, created_at=job.created_at - timedelta(hours=1))
    assert jobs.sdk.poll([old])[job.id].state is JobState.UNKNOWN


def test_another_job_of_the_same_name_is_not_ours(jobs: Jobs, cluster: FakeKubernetes) -> None:
    job = jobs.start("sleep 5")
    stranger = replace(job, backend_id="11111111-2222-3333-4444-555555555555")
    assert jobs.sdk.poll([stranger])[job.id].reason == "Removed"
    assert jobs.sdk.cancel(stranger).reason == "Removed"
    assert jobs.sdk.poll([job])[job.id].state is not JobState.CANCELED


def test_rights_in_one_namespace_are_enough(make_sdk: Callable[..., KubernetesSDK], cluster: FakeKubernetes) -> None:
    cluster.objects.create("namespaces", "", {"metadata": {"name": "team"}})
    cluster.users["usertoken"] = User("alice", [("team", "*", {"*"})])
    sdk = make_sdk("usertoken", "team", ACCESS_KEY="key-of-alice")
    jobs = Jobs(sdk)
    job = jobs.start("echo mine; sleep 0.3", nodes=2, secrets={"K": "ACCESS_KEY"})
    assert job.account.startswith("fake/team ")
    assert jobs.ended(job).state is JobState.COMPLETE
    assert text_of(sdk, job) == ["mine", "mine"]
    checks = {check.id: check for check in sdk.check_access(job.request)}
    assert checks["kubernetes-rights"].status == "ok"
    assert checks["kubernetes-capacity"].status == "skipped"
    with pytest.raises(PermissionRefused, match='cannot create resource "jobs"'):
        Jobs(make_sdk("usertoken", "default", ACCESS_KEY="key-of-alice")).start()


def test_five_hundred_jobs_one_list_call_each(jobs: Jobs, cluster: FakeKubernetes) -> None:
    cluster.control.enabled = cluster.objects.strict = False
    held = [jobs.start() for _ in range(500)]
    cluster.calls.clear()
    statuses = jobs.sdk.poll(held)
    assert len(statuses) == 500
    assert [call.path.rsplit("/", 1)[1] for call in cluster.calls] == ["jobs", "pods"]


def test_validate_asks_the_server_and_creates_nothing(jobs: Jobs, cluster: FakeKubernetes) -> None:
    launch = jobs.prepare(nodes=2, secrets={"K": "ACCESS_KEY"}, payload=b"x")
    notes = jobs.sdk.validate(launch)
    assert len(notes) == 5
    assert [len(cluster.objects.select(kind, "default")) for kind in ("jobs", "secrets")] == [0, 0]


def test_a_job_needs_an_image(jobs: Jobs) -> None:
    with pytest.raises(UsageError, match="image"):
        jobs.prepare(image=None)
