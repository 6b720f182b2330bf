"""The objects as they would be sent: against the strict schemas of every version, and rule by rule."""

from __future__ import annotations

import base64
import json
from typing import Any

import kubernetes_validate
import pytest

from tao_run.errors import UsageError
from tao_run.jobs.model import job_name
from tao_run.platforms.kubernetes import manifest, names
from tao_run.platforms.kubernetes.options import Options, with_shared_mount
from tests.fakes.kubernetes.schemas import strict
from tests.platforms.kubernetes.conftest import a_job

EVERYTHING: dict[str, Any] = {
    "node_selector": "gpu=h100,zone=a",
    "tolerations": "nvidia.com/gpu,dedicated=team:NoSchedule,spot:NoExecute",
    "queue": "team-queue",
    "priority_class": "high",
    "service_account": "trainer",
    "pvc": "data:/data,models/sub:/models:ro,data:/again",
    "host_path": "/lustre:/lustre",
    "shm": "16Gi",
    "cpu": "8",
    "memory": "64Gi",
    "limits": "rdma/ib=1",
    "image_pull_secret": "ngc,other",
    "pull_policy": "missing",
    "host_network": True,
    "backoff_limit": 2,
    "ttl": "1d",
    "annotations": "team=vision",
}


def build(options: dict[str, Any] | None = None, payload: bytes | None = None, **spec: Any) -> list[dict[str, Any]]:
    secrets = spec.pop("secrets", {})
    job = a_job({"command": "train", **spec})
    parts = manifest.Parts(
        "train", job.request.env, secrets, payload, ngc_pull=spec.get("image", "").startswith("nvcr")
    )
    return manifest.build(job, Options.parse(options or {}), "team", parts)


def pod_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(items[0]["spec"]["template"]["spec"])


@pytest.mark.parametrize("version", kubernetes_validate.utils.all_versions())
def test_every_version_takes_everything(version: str) -> None:
    items = build(EVERYTHING, b"\0payload", nodes=4, gpus=8, image="nvcr.io/x:1", max_time="2h", secrets={"A": "A_KEY"})
    assert [item["kind"] for item in items] == ["Job", "Service", "Secret", "Secret", "ConfigMap"]
    for item in items:
        assert kubernetes_validate.validate(item, version, strict=True)
    misspelt = {**items[0], "spec": {**items[0]["spec"], "backofLimit": 0}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(misspelt, version, strict=True)


def test_a_plain_job_is_one_object_that_runs_at_once() -> None:
    (job,) = build()
    assert "suspend" not in job["spec"]
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["ttlSecondsAfterFinished"] == 3 * 86400
    assert job["metadata"]["annotations"][names.LAUNCH] == names.COMPLETE
    assert pod_of([job])["restartPolicy"] == "Never"
    assert strict(job) == ""


def test_one_node_is_no_indexed_job_and_several_are() -> None:
    single, many = build(nodes=1), build(nodes=3)
    assert "completionMode" not in single[0]["spec"]
    assert (many[0]["spec"]["completionMode"], many[0]["spec"]["completions"]) == ("Indexed", 3)
    service = many[1]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= many[0]["spec"]["template"]["metadata"]["labels"].items()
    assert pod_of(many)["subdomain"] == service["metadata"]["name"]


def test_what_belongs_to_a_job_waits_for_it_suspended() -> None:
    items = build(secrets={"TOKEN": "HF_TOKEN"})
    assert items[0]["spec"]["suspend"] is True
    owner = manifest.owned(items[1], {"metadata": {"name": "j", "uid": "u-1"}})["metadata"]["ownerReferences"]
    assert owner == [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-1"}]
    assert manifest.completed(queued=False)["spec"] == {"suspend": False}
    assert "spec" not in manifest.completed(queued=True)


def test_secrets_are_references_until_they_are_sent() -> None:
    items = build(secrets={"AWS_ACCESS_KEY_ID": "ACCESS_KEY"}, image="nvcr.io/nvidia/tao:1")
    assert items[1]["stringData"] == {"AWS_ACCESS_KEY_ID": "${ACCESS_KEY}"}
    sent = manifest.with_values(items[1], {"ACCESS_KEY": "value"})
    assert (sent["data"], "stringData" in sent) == ({"AWS_ACCESS_KEY_ID": base64.b64encode(b"value").decode()}, False)
    pull = manifest.with_values(items[2], {"NGC_KEY": 'k"ey'})
    config = json.loads(base64.b64decode(pull["data"][".dockerconfigjson"]))["auths"]["nvcr.io"]
    assert (config["username"], config["password"]) == ("$oauthtoken", 'k"ey')
    assert base64.b64decode(config["auth"]).decode() == '$oauthtoken:k"ey'
    assert pod_of(items)["imagePullSecrets"] == [{"name": items[2]["metadata"]["name"]}]


def test_shared_memory_is_as_large_as_memory_allows_unless_told() -> None:
    assert pod_of(build())["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    sized = pod_of(build({"shm": "16g"}))["volumes"][0]["emptyDir"]
    assert sized == {"medium": "Memory", "sizeLimit": "16Gi"}
    assert "volumes" not in pod_of(build({"shm": "off"}))


def test_gpus_by_default_by_number_and_by_another_name() -> None:
    def limits(options: dict[str, Any], **spec: Any) -> Any:
        return pod_of(build(options, **spec))["containers"][0].get("resources", {}).get("limits")

    assert limits({}) == {"nvidia.com/gpu": "1"}
    assert limits({}, gpus=0) is None
    assert limits({"gpu_resource": "nvidia.com/mig-1g.10gb"}, gpus=2) == {"nvidia.com/mig-1g.10gb": "2"}


def test_one_source_at_two_places_is_one_volume() -> None:
    pod = pod_of(build({"pvc": "data:/a,data:/b:ro"}))
    claims = [volume for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    assert len(claims) == 1
    places = {m["mountPath"]: m.get("readOnly", False) for m in pod["containers"][0]["volumeMounts"]}
    assert (places["/a"], places["/b"]) == (False, True)


def test_two_sources_at_one_place_are_refused() -> None:
    with pytest.raises(UsageError, match="/data"):
        build({"pvc": "a:/data,b:/data/"})
    with pytest.raises(UsageError, match="/dev/shm"):
        build({"host_path": "/x:/dev/shm"})


def test_a_secret_is_not_hidden_by_a_variable_of_its_name() -> None:
    container = pod_of(build(env={"MODE": "x"}, secrets={"NNODES": "ODD_KEY"}))["containers"][0]
    listed = [variable["name"] for variable in container["env"]]
    assert "NNODES" not in listed
    assert "MODE" in listed
    assert len(listed) == len(set(listed))


def test_the_users_own_rendezvous_wins() -> None:
    container = pod_of(build(nodes=2, env={"MASTER_PORT": "1234"}))["containers"][0]
    ports = [variable for variable in container["env"] if variable["name"] == "MASTER_PORT"]
    assert ports == [{"name": "MASTER_PORT", "value": "1234"}]


def test_dollars_are_protected_from_the_kubelet() -> None:
    assert manifest.literal("$$ $(HOME) $x") == "$$$$ $$(HOME) $$x"


@pytest.mark.parametrize("wanted", ["x" * 100, "Ünï cödé", "9lives", "-", "a" * 41 + "-b"])
def test_names_fit_with_the_index_of_any_pod(wanted: str) -> None:
    name = job_name(wanted, "0123456789abcdef", names.NAME_LIMIT)
    assert len(f"{name}-4095") <= 63
    job = a_job({"nodes": 4096}, name=name)
    items = manifest.build(job, Options.parse({}), "team", manifest.Parts("true", {}, {}))
    from tests.fakes.kubernetes.schemas import check

    for resource, item in zip(("jobs", "services"), items, strict=True):
        check(resource, {**item, "spec": {**item["spec"]}})


def test_labels_that_kubernetes_refuses_are_refused_here() -> None:
    assert build(labels={"team": "vision"})[0]["metadata"]["labels"]["team"] == "vision"
    for key, value in (("team", "a b"), ("a b", "x"), ("team", "x" * 64), ("team", "-x")):
        with pytest.raises(UsageError, match="label"):
            build(labels={key: value})


def test_a_payload_over_the_limit_is_refused() -> None:
    with pytest.raises(UsageError, match="ConfigMap"):
        build(payload=b"x" * (manifest.LARGEST_PAYLOAD + 1))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("namespace", "Team A", "name"),
        ("tolerations", "gpu:Never", "NoSchedule"),
        ("pvc", "data", "SOURCE:/PATH"),
        ("pvc", "data:relative", "SOURCE:/PATH"),
        ("pvc", "data/../../etc:/x", "leaves the claim"),
        ("host_path", "data:/x", "begins with /"),
        ("memory", "lots", "quantity"),
        ("node_selector", "gpu", "KEY=VALUE"),
        ("ttl", "soon", "duration"),
        ("pull_policy", "sometimes", "Always"),
        ("nodeselector", "a=b", "node_selector"),
    ],
)
def test_a_bad_option_is_one_clear_line(option: str, value: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        Options.parse({option: value})
    assert "\n" not in caught.value.message


def test_options_in_their_long_form() -> None:
    long = {"pvc": [{"source": "data", "path": "/data", "sub_path": "a", "read_only": True}], "ttl": "off"}
    options = Options.parse({**long, "tolerations": [{"key": "k", "operator": "Exists"}], "node_selector": {"a": "b"}})
    assert (options.pvc[0].sub_path, options.ttl, options.node_selector) == ("a", None, {"a": "b"})
    assert Options.parse({"tolerations": "*"}).tolerations == [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("mount", "kind", "source", "path"),
    [
        ("claim:/m", "pvc", "claim", "/m"),
        ("/lustre", "host_path", "/lustre", "/lustre"),
        ("/a:/b", "host_path", "/a", "/b"),
    ],
)
def test_the_requests_shared_mount(mount: str, kind: str, source: str, path: str) -> None:
    (found,) = getattr(with_shared_mount(Options.parse({}), mount), kind)
    assert (found.source, found.path) == (source, path)
    assert with_shared_mount(Options.parse({}), False) == Options.parse({})
