"""What only a real API server, kubelet and container engine can show (Kubernetes 1.20: no Indexed Jobs)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.errors import BackendRejected, CredentialRefused, PermissionRefused
from tao_run.jobs.model import JobState, LogQuery
from tao_run.jobs.store import Store
from tao_run.platforms.kubernetes import KubernetesSDK
from tao_run.platforms.kubernetes.account import choose
from tao_run.platforms.kubernetes.client import Api, connect
from tests.platforms.kubernetes.conftest import QUICK, Jobs
from tests.services.kubernetes import KubernetesService, shared_cluster

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def service() -> KubernetesService:
    return shared_cluster()


class RealJobs(Jobs):
    """Jobs of busybox images in the node's own network: the test node has no network plugin."""

    def build(self, command: str = "true", **fields: Any) -> Any:
        return super().build(command, **{"image": "py:1", "pull_policy": "never", "host_network": True, **fields})


@pytest.fixture
def make(service: KubernetesService, tmp_path: Path) -> Callable[..., RealJobs]:
    def of(context: str = "test", **environ: str) -> RealJobs:
        credentials = Credentials({"KUBECONFIG": str(service.kubeconfig), "TAO_K8S_CONTEXT": context, **environ})
        return RealJobs(KubernetesSDK(credentials=credentials, store=Store(tmp_path / context), timing=QUICK))

    return of


@pytest.fixture
def jobs(make: Callable[..., RealJobs]) -> RealJobs:
    return make(ACCESS_KEY="value-of-a-key")


@pytest.fixture
def api(service: KubernetesService) -> Api:
    credentials = Credentials({"KUBECONFIG": str(service.kubeconfig)})
    return connect(choose(credentials), credentials)


def texts(jobs: RealJobs, job: Any) -> list[str]:
    return [line.text for line in jobs.sdk.logs(job, LogQuery()) if line.kind == "line"]


def test_out_of_memory(jobs: RealJobs) -> None:
    job = jobs.start("python3 -c 'x = bytearray(400_000_000); print(len(x))'", memory="64Mi")
    status = jobs.ended(job, 60)
    assert (status.state, status.reason, status.exit_code) == (JobState.ERROR, "OOMKilled", 137)
    assert jobs.sdk.evidence(job).replicas[0].issue_reason == "OOMKilled"


def test_an_image_that_is_not_there(jobs: RealJobs, api: Api) -> None:
    job = jobs.start(image="127.0.0.1:1/no/such:1", pull_policy="always")
    status = jobs.until(job, lambda s: s.reason in ("ErrImagePull", "ImagePullBackOff"), 60)
    assert status.state is JobState.PENDING
    assert "127.0.0.1:1/no/such:1" in status.message
    assert any("127.0.0.1:1/no/such:1" in event.message for event in jobs.sdk.evidence(job).events if event.warning)
    api.delete("jobs", job.name, str(job.backend_id))  # a kubelet of 1.20 takes a minute to end such a pod
    assert jobs.until(job, lambda s: s.reason == "Terminating", 10).state is JobState.RUNNING


def test_more_gpus_than_the_node_has(jobs: RealJobs) -> None:
    job = jobs.start(gpus=3)
    status = jobs.until(job, lambda s: s.reason == "Unschedulable", 30)
    assert (status.state, "nvidia.com/gpu" in status.message) == (JobState.PENDING, True)
    checks = {check.id: check for check in jobs.sdk.check_access(job.request)}
    assert checks["kubernetes-capacity"].status == "failed"
    assert jobs.sdk.cancel(job).state is JobState.CANCELED


def test_one_directory_at_two_places_and_shared_memory(jobs: RealJobs, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("there\n")
    paths = f"{tmp_path}:/a,{tmp_path}:/b:ro"
    command = "cat /a/file /b/file; echo new > /a/out; touch /b/x || echo refused; df -m /dev/shm | tail -1"
    job = jobs.start(command, host_path=paths, shm="200Mi")
    assert jobs.ended(job, 60).state is JobState.COMPLETE
    lines = texts(jobs, job)
    assert [line for line in lines if line in ("there", "refused")] == ["there", "there", "refused"]
    assert "/dev/shm" in lines[-1]
    assert (tmp_path / "out").read_text() == "new\n"


def test_a_large_payload_and_a_secret_are_there_and_go_with_the_job(jobs: RealJobs, api: Api) -> None:
    command = 'wc -c < "$TAO_RUN_PAYLOAD"; echo "$KEY"; sleep 60'
    job = jobs.start(command, payload=b"\0" * 400_000, secrets={"KEY": "ACCESS_KEY"})
    jobs.until(job, lambda s: s.state is JobState.RUNNING, 60)
    next(line for line in jobs.sdk.logs(job, LogQuery(follow=True)) if line.text == "value-of-a-key")
    assert jobs.sdk.cancel(job).state is JobState.CANCELED
    assert texts(jobs, job)[:2] == ["400000", "value-of-a-key"]
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        left = [o for kind in ("secrets", "configmaps") for o in api.list(kind) if job.name in o["metadata"]["name"]]
        if not left:
            break
        time.sleep(0.2)
    assert left == []


def test_a_line_longer_than_the_engine_stores_at_once(jobs: RealJobs) -> None:
    job = jobs.start("head -c 100000 /dev/zero | tr '\\0' x; echo; echo next")
    assert jobs.ended(job, 60).state is JobState.COMPLETE
    assert texts(jobs, job) == ["x" * 100_000, "next"]


def test_the_server_judges_without_creating(jobs: RealJobs, api: Api) -> None:
    before = len(api.list("jobs"))
    assert len(jobs.sdk.validate(jobs.prepare(secrets={"KEY": "ACCESS_KEY"}))) == 2
    with pytest.raises(BackendRejected, match="invalid"):
        jobs.sdk.validate(jobs.prepare(gpus=1, gpu_resource="not a resource name"))
    assert len(api.list("jobs")) == before


def test_no_rights_then_rights_in_one_namespace(make: Callable[..., RealJobs], api: Api) -> None:
    alice = make("alice", ACCESS_KEY="key-of-alice")
    api.call("POST", "/api/v1/namespaces", {}, {"metadata": {"name": "team"}})
    with pytest.raises(PermissionRefused, match='User "alice" cannot'):
        alice.start()
    rights = {check.id: check.status for check in alice.sdk.check_access(alice.build()[0].request)}
    assert rights["kubernetes-rights"] == "failed"
    _give_rights(api)
    job = alice.start("echo mine", secrets={"KEY": "ACCESS_KEY"})
    assert alice.ended(job, 60).state is JobState.COMPLETE
    assert texts(alice, job) == ["mine"]
    checks = {check.id: check.status for check in alice.sdk.check_access(job.request)}
    assert (checks["kubernetes-rights"], checks["kubernetes-capacity"]) == ("ok", "skipped")


def _give_rights(api: Api) -> None:
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get"]},
    ]
    group = "rbac.authorization.k8s.io"
    base = f"/apis/{group}/v1/namespaces/team"
    api.call("POST", f"{base}/roles", {}, {"metadata": {"name": "runner"}, "rules": rules})
    binding = {
        "metadata": {"name": "runner"},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": group}],
        "roleRef": {"kind": "Role", "name": "runner", "apiGroup": group},
    }
    api.call("POST", f"{base}/rolebindings", {}, binding)


def test_a_wrong_token(make: Callable[..., RealJobs]) -> None:
    with pytest.raises(CredentialRefused):
        make("nobody").sdk.resources()


def test_a_job_that_expired_is_what_its_event_says(jobs: RealJobs, api: Api) -> None:
    job = jobs.start("true", ttl=1)
    deadline = time.monotonic() + 60
    while any(found["metadata"]["name"] == job.name for found in api.list("jobs")):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    status = jobs.sdk.poll([job])[job.id]
    assert (status.state, status.reason) == (JobState.COMPLETE, "Completed")


def test_resources_of_the_node(jobs: RealJobs) -> None:
    (table,) = jobs.sdk.resources()
    assert [row[:2] for row in table.rows] == [("node1", "2")]
    assert json.dumps(table.rows)
