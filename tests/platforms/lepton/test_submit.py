"""What is sent when a job is submitted: the body, in how many requests, and where the secrets are."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tao_run.errors import (
    BackendRejected,
    CredentialMissing,
    CredentialRefused,
    PermissionRefused,
    UsageError,
)
from tao_run.jobs.model import JobState
from tao_run.platforms.lifecycle import Unconfirmed, observe, submit
from tests.fakes.lepton import FakeLepton, Fault, error, html, shape
from tests.fakes.lepton.faults import Faults
from tests.platforms.lepton.conftest import CREDENTIALS, Desk

ON_GROUP = {"node_group": "h100-pool", "storage_user": "ann@example.com"}


def spec(desk: Desk, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = desk.native(**more)["spec"]
    return body


def test_the_body_of_a_distributed_job(desk: Desk) -> None:
    body = desk.native("torchrun train.py", nodes=4, gpus=8, options=ON_GROUP, labels={"team": "vision"})
    found = body["spec"]
    assert (found["completions"], found["parallelism"], found["intra_job_communication"]) == (4, 4, True)
    assert found["resource_shape"] == "gpu.8xh100-sxm"
    assert found["affinity"] == {"allowed_dedicated_node_groups": ["h100-pool-abcd"]}
    assert found["mounts"] == [{"path": "/proj/ann", "from": "node-nfs:lustre", "mount_path": "/mnt/lustre"}]
    assert found["container"]["command"][-1].endswith("torchrun train.py")
    assert found["ttl_seconds_after_finished"] == 259_200
    assert found["log"] == {"enable_collection": True, "save_termination_logs": True}
    env = {item["name"]: item.get("value") for item in found["envs"]}
    assert (env["WORLD_SIZE"], env["NUM_GPU_PER_NODE"]) == ("4", "8")
    assert body["metadata"]["visibility"] == "private"
    assert body["metadata"]["labels"]["team"] == "vision"


def test_one_node_has_no_communication_between_workers(desk: Desk) -> None:
    assert "intra_job_communication" not in spec(desk)


def test_the_job_is_found_by_its_label_and_name(desk: Desk) -> None:
    job = desk.build(name="My Run!")
    metadata = desk.platform.prepare(job).native["metadata"]
    assert metadata["labels"]["tao-run"] == job.id
    assert metadata["id"] == job.name == f"my-run-{job.id}"
    assert len(job.name) <= 36


def test_every_option_reaches_the_body(desk: Desk) -> None:
    found = desk.native(
        options={
            "node_group": "h100-pool-abcd",
            "resource_shape": "anything.goes",
            "nodes_in_group": "n1,n2",
            "reservation": "res-1",
            "priority": "high",
            "can_be_preempted": True,
            "can_preempt": False,
            "shared_memory_mb": 4096,
            "ttl_seconds": 60,
            "worker_retries": 2,
            "job_retries": 1,
            "visibility": "public",
            "image_pull_secrets": "mine",
            "mounts": "scratch:/tmp:/scratch:ro,lustre:/datasets:/data",
        },
        mount=False,
    )
    body = found["spec"]
    assert body["resource_shape"] == "anything.goes"
    assert body["affinity"]["allowed_nodes_in_node_group"] == ["n1", "n2"]
    assert body["reservation_config"] == {"reservation_id": "res-1"}
    assert body["queue_config"] == {"priority_class": "high-7000", "can_be_preempted": True, "can_preempt": False}
    assert (body["shared_memory_size"], body["ttl_seconds_after_finished"]) == (4096, 60)
    assert (body["max_failure_retry"], body["max_job_failure_retry"]) == (2, 1)
    assert body["image_pull_secrets"][0] == "mine"
    assert body["mounts"] == [
        {"path": "/tmp", "from": "node-local:scratch", "mount_path": "/scratch", "mount_options": {"read_only": True}},
        {"path": "/datasets", "from": "node-nfs:lustre", "mount_path": "/data"},
    ]
    assert found["metadata"]["visibility"] == "public"


@pytest.mark.parametrize(
    ("given", "sent"), [("low", "low-1000"), ("5", "mid-5000"), ("9", "high-9000"), ("mid-6000", "mid-6000")]
)
def test_priorities(desk: Desk, given: str, sent: str) -> None:
    assert spec(desk, options={"priority": given})["queue_config"] == {"priority_class": sent}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"options": {"priority": "urgent"}}, "priority"),
        ({"options": {"resource_shap": "x"}}, "resource_shape"),
        ({"options": {"mounts": "lustre"}}, "VOLUME:PATH:MOUNT_PATH"),
        ({"options": {"visibility": "secret"}}, "visibility"),
        ({"image": None}, "needs an image"),
        ({"env": {"LEPTON_JOB_NAME": "x"}}, "LEPTON_"),
        ({"options": {"node_group": "nope"}}, "no node group"),
        ({"gpus": 3}, "no shape with 3 GPUs"),
        ({"mount": "lustre"}, "no volume"),
        ({"mount": "lustre:/proj/bob", "options": ON_GROUP}, "may not be mounted"),
        ({"mount": "lustre:relative", "options": ON_GROUP}, "cannot be read"),
        ({"mount": "/mnt/x", "options": {"node_group": "l40s-pool"}, "gpus": 2}, "no shared volume"),
        ({"mount": "lustre", "options": {"node_group": "h100-pool"}}, "known to be yours"),
        ({"options": {**ON_GROUP, "mounts": "lustre:/datasets:/usr"}}, "reserved"),
        ({"labels": {"a/b": "c"}}, "Label key"),
    ],
)
def test_what_cannot_be_is_one_clear_error_before_anything_is_created(
    desk: Desk, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        desk.submit(**more)
    assert words in f"{caught.value.message} {caught.value.hint}"
    assert desk.lepton.asked("POST") == []
    assert desk.store.recent() == []


@pytest.mark.parametrize(
    ("mount", "sent"),
    [
        ("lustre:/datasets", {"path": "/datasets", "mount_path": "/mnt/lustre"}),
        ("lustre:/datasets/coco:/data", {"path": "/datasets/coco", "mount_path": "/data"}),
        ("/shared", {"path": "/proj/ann", "mount_path": "/shared"}),
        ("lustre", {"path": "/proj/ann", "mount_path": "/mnt/lustre"}),
    ],
)
def test_an_explicit_mount(desk: Desk, mount: str, sent: dict[str, str]) -> None:
    assert spec(desk, mount=mount, gpus=1, options=ON_GROUP)["mounts"] == [{"from": "node-nfs:lustre", **sent}]


def test_a_mount_is_that_of_the_chosen_group_only(desk: Desk) -> None:
    assert spec(desk, gpus=2, options={"node_group": "l40s-pool"})["mounts"] == []
    assert spec(desk)["mounts"] == []


def test_a_mount_can_be_switched_off(desk: Desk) -> None:
    assert spec(desk, mount=False, options=ON_GROUP)["mounts"] == []
    assert desk.lepton.asked(path="storage-permission") == []


def test_a_volume_whose_path_is_not_known_is_not_mounted_and_that_is_said(desk: Desk) -> None:
    job = desk.submit(options={"node_group": "h100-pool"})
    assert desk.lepton.workspace.jobs[str(job.backend_id)].spec["mounts"] == []
    assert any("storage_user" in note for note in desk.notes)


def test_the_user_may_be_set_once_for_all(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(LEPTON_STORAGE_USER="ann")
    assert spec(desk, options={"node_group": "h100-pool"})["mounts"][0]["path"] == "/proj/ann"


@pytest.mark.parametrize(
    ("environ", "more", "ends"),
    [
        ({"S3_BUCKET_NAME": "b"}, {}, "s3://b/results/{id}"),
        ({"S3_BUCKET_NAME": "b"}, {"options": ON_GROUP}, "s3://b/results/{id}"),
        ({}, {"options": ON_GROUP}, "/mnt/lustre/results/{id}"),
        ({}, {"results": "s3://mine/x/"}, "s3://mine/x/{id}"),
        ({}, {"results": "/mnt/lustre/exp", "options": ON_GROUP}, "/mnt/lustre/exp/{id}"),
        ({}, {}, ""),
    ],
)
def test_the_results_directory_tells_the_truth(
    make_desk: Callable[..., Desk], environ: dict[str, str], more: dict[str, Any], ends: str
) -> None:
    desk = make_desk(**environ)
    job = desk.submit(**more)
    assert job.results_dir == ends.format(id=job.id)
    assert desk.store.get(job.id).results_dir == job.results_dir
    assert any("no durable place" in note for note in desk.notes) is (ends == "")


def test_results_inside_the_container_are_warned_about(desk: Desk) -> None:
    desk.submit(results="/data/out")
    assert any("lies on no mount" in note for note in desk.notes)


def test_many_nodes_on_shared_capacity_are_warned_about(desk: Desk) -> None:
    desk.submit(nodes=2)
    assert any("dedicated group" in note for note in desk.notes)
    desk.notes.clear()
    desk.submit(nodes=2, options=ON_GROUP)
    assert not any("dedicated group" in note for note in desk.notes)


def test_a_whole_submission_takes_at_most_six_requests(desk: Desk) -> None:
    before = len(desk.lepton.requests)
    desk.submit(gpus=8, options=ON_GROUP, secrets={"HF_TOKEN": "HF_TOKEN"})
    asked = desk.lepton.requests[before:]
    assert len(asked) <= 6
    assert [request.method for request in asked].count("POST") == 3


def test_independent_requests_run_at_the_same_time(desk: Desk) -> None:
    """Both of a pair are held until the other has come: one after the other would never end."""
    meetings = {"shapes": threading.Barrier(2, timeout=10), "secrets": threading.Barrier(2, timeout=10)}

    class Meet(Fault):
        def matches(self, method: str, path: str) -> bool:
            if "/shapes" in path or "storage-permission" in path:
                meetings["shapes"].wait()
            if method == "POST" and "secrets" in path:
                meetings["secrets"].wait()
            return False

    desk.lepton.faults = MeetingFaults(Meet())
    job = desk.submit(gpus=8, options=ON_GROUP, secrets={"HF_TOKEN": "HF_TOKEN"})
    assert job.backend_id


class MeetingFaults(Faults):
    """Faults that commit none, but hold each request until its partner is there. No lock around the wait."""

    def __init__(self, meet: Fault) -> None:
        super().__init__()
        self.meet = meet

    def take(self, method: str, path: str) -> None:
        self.meet.matches(method, path)


def test_values_of_secrets_are_in_their_own_bodies_only(desk: Desk) -> None:
    job = desk.submit("echo $HF", secrets={"HF": "HF_TOKEN", "KEY": "ACCESS_KEY"}, options=ON_GROUP)
    values = [value for value in CREDENTIALS.values() if value.startswith("canary")]
    for request in desk.lepton.requests:
        found = {value for value in values if value in f"{request.path} {request.query} {request.body}"}
        allowed = {
            "/usersecrets": {CREDENTIALS["HF_TOKEN"], CREDENTIALS["ACCESS_KEY"]},
            "/imagepullsecrets": {CREDENTIALS["NGC_KEY"]},
        }.get("/" + request.path.rsplit("/", 1)[1], set())
        assert found == allowed
    envs = desk.lepton.workspace.jobs[str(job.backend_id)].spec["envs"]
    assert {"name": "HF", "value_from": {"secret_name_ref": f"TAO_RUN_{job.id}_HF_TOKEN"}} in envs
    assert desk.lepton.workspace.secrets[f"TAO_RUN_{job.id}_HF_TOKEN"]["visibility"] == "private"


def test_a_pull_secret_is_made_for_nvidias_registry_only(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    job = desk.submit()
    made = desk.lepton.workspace.pull_secrets[f"tao-run-{job.id}"]["spec"]
    assert (made["registry_server"], made["username"]) == ("nvcr.io", "$oauthtoken")
    assert desk.lepton.workspace.jobs[str(job.backend_id)].spec["image_pull_secrets"] == [f"tao-run-{job.id}"]
    desk.submit(image="docker.io/library/bash:5")
    assert len(desk.lepton.workspace.pull_secrets) == 1


def test_without_an_ngc_key_that_is_said(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(NGC_KEY="")
    desk.submit()
    assert any("NGC_KEY is not set" in note for note in desk.notes)
    assert desk.lepton.asked(path="imagepullsecrets") == []


def test_secrets_that_are_left_of_an_earlier_try_are_made_anew(desk: Desk) -> None:
    job = desk.build(secrets={"HF": "HF_TOKEN"})
    name = f"TAO_RUN_{job.id}_HF_TOKEN"
    desk.lepton.workspace.secrets[name] = {"name": name, "value": "stale"}
    desk.lepton.workspace.create_pull_secret({"metadata": {"name": f"tao-run-{job.id}"}, "spec": {"password": "stale"}})
    desk.platform.launch(desk.platform.prepare(job))
    assert desk.lepton.workspace.secrets[name]["value"] == CREDENTIALS["HF_TOKEN"]
    pull = desk.lepton.workspace.pull_secrets[f"tao-run-{job.id}"]
    assert pull["spec"]["password"] == CREDENTIALS["NGC_KEY"]


def test_a_refused_job_leaves_nothing_behind(desk: Desk) -> None:
    desk.lepton.faults.add(error(422, "quota exceeded", method="POST", path="/jobs$"))
    with pytest.raises(BackendRejected, match="quota exceeded"):
        desk.submit(secrets={"HF": "HF_TOKEN"})
    assert desk.lepton.workspace.secrets == {}
    assert desk.lepton.workspace.pull_secrets == {}
    assert desk.store.recent()[0].status.state is JobState.ERROR


def test_an_ended_job_gives_its_secrets_back(desk: Desk) -> None:
    job = desk.submit(secrets={"HF": "HF_TOKEN"})
    assert len(desk.lepton.workspace.secrets) == 1
    desk.lepton.workspace.secrets["MINE"] = {"name": "MINE", "value": "stays"}
    assert desk.platform.settle(job) == []
    assert list(desk.lepton.workspace.secrets) == ["MINE"]
    assert desk.lepton.workspace.pull_secrets == {}
    assert desk.platform.settle(job) == []


def test_secrets_that_cannot_be_given_back_are_told(desk: Desk) -> None:
    job = desk.submit(secrets={"HF": "HF_TOKEN"})
    desk.lepton.faults.add(error(403, path="usersecrets"))
    assert "may still be in the workspace" in desk.platform.settle(job)[0]
    assert desk.lepton.workspace.pull_secrets == {}


@pytest.mark.parametrize("fault", [Fault(drop="after"), error(502), html(), Fault(status=200, body=b'{"spec":{}}')])
def test_a_lost_answer_never_makes_a_second_job(desk: Desk, fault: Fault) -> None:
    """The service has the job, whatever it answered."""
    job = desk.build()
    launch = desk.platform.prepare(job)
    desk.lepton.workspace.create_job(launch.native)
    before = len(desk.lepton.workspace.jobs)
    fault.method, fault.path = "POST", "/jobs$"
    if fault.drop == "after":
        desk.lepton.workspace.jobs.clear()
        before = 1
    desk.lepton.faults.add(fault)
    submitted = submit(desk.platform, desk.store, job)
    assert submitted.backend_id in desk.lepton.workspace.jobs
    assert len(desk.lepton.workspace.jobs) == before
    assert len(desk.lepton.asked("POST", "/jobs")) == 1


def test_an_unanswered_submission_is_unconfirmed_and_settled_later(desk: Desk) -> None:
    desk.lepton.faults.add(Fault(method="POST", path="/jobs$", drop="before"))
    with pytest.raises(Unconfirmed) as caught:
        desk.submit()
    job = desk.store.get(caught.value.job.id)
    assert (job.backend_id, job.status.state) == (None, JobState.PENDING)
    desk.lepton.workspace.create_job(desk.platform.prepare(job).native)
    assert observe(desk.platform, desk.store, [job])[0].backend_id in desk.lepton.workspace.jobs


def test_a_dry_run_reads_and_creates_nothing(desk: Desk) -> None:
    desk.native(options=ON_GROUP, secrets={"HF": "HF_TOKEN"})
    assert {request.method for request in desk.lepton.requests} == {"GET"}


def test_the_dry_run_is_what_is_sent(desk: Desk) -> None:
    job = desk.build(nodes=2, gpus=8, options=ON_GROUP)
    shown = desk.platform.prepare(job).native
    desk.platform.launch(desk.platform.prepare(job))
    assert json.loads(desk.lepton.asked("POST", "/jobs")[-1].body) == shown


@pytest.mark.parametrize(
    ("status", "kind"), [(401, CredentialRefused), (403, PermissionRefused), (400, BackendRejected)]
)
def test_a_refusal_is_raised_at_submission(desk: Desk, status: int, kind: type[Exception]) -> None:
    desk.lepton.faults.add(error(status, method="POST", path="/jobs$"))
    with pytest.raises(kind):
        desk.submit()


def test_a_missing_credential_is_named_before_anything_is_asked(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    job = desk.build(secrets={"X": "WANDB_API_KEY"})
    with pytest.raises(CredentialMissing, match="WANDB_API_KEY"):
        desk.platform.launch(desk.platform.prepare(job))
    assert desk.lepton.asked("POST") == []


def test_two_shapes_that_fit_are_the_users_choice(desk: Desk) -> None:
    desk.lepton.workspace.shapes["h100-pool-abcd"].append(shape("gpu.8xh100-pcie", 8))
    with pytest.raises(UsageError, match="2 shapes with 8 GPUs"):
        desk.native(gpus=8, options=ON_GROUP)


def test_the_gpu_count_of_an_explicit_shape_comes_from_lepton(desk: Desk) -> None:
    command = desk.native(gpus=None, options={"resource_shape": "gpu.8xh100-sxm"})["spec"]["container"]["command"]
    assert "LEPTON_RESOURCE_ACCELERATOR_NUM" in command[2]


def test_an_odd_node_group_with_a_secret_in_it_is_shown_nowhere(
    lepton: FakeLepton, desk: Desk, capfd: pytest.CaptureFixture[str]
) -> None:
    lepton.workspace.node_groups.insert(0, {"metadata": {"id": "odd"}, "spec": {"envs": "hush"}, "status": None})
    assert spec(desk, options=ON_GROUP)["affinity"]
    assert "hush" not in "".join(capfd.readouterr())


def test_leptonai_mount_objects_are_taken(desk: Desk) -> None:
    types = pytest.importorskip("leptonai.api.v2.types.deployment")
    mount = types.Mount(**{"path": "/datasets", "from": "node-nfs:lustre", "mount_path": "/data"})
    job = desk.platform.create_job(image="img", command="true", gpu_count=8, mounts=[mount], mount=False)
    sent = desk.lepton.workspace.jobs[str(job.backend_id)].spec["mounts"]
    assert sent == [{"path": "/datasets", "from": "node-nfs:lustre", "mount_path": "/data"}]
