"""Which cluster, with what rights, and whether there is room: kubeconfig, in-cluster, preflight, capacity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.errors import CredentialError, CredentialMissing, CredentialRefused, PermissionRefused, UsageError
from tao_run.jobs.model import JobState
from tao_run.jobs.request import parse_request
from tao_run.platforms.kubernetes import KubernetesSDK, capacity
from tao_run.platforms.kubernetes.account import Account, choose
from tests.fakes.kubernetes import FakeKubernetes
from tests.fakes.kubernetes.api import User
from tests.platforms.kubernetes.conftest import Jobs

TWO = """
current-context: a
contexts:
- {name: a, context: {cluster: one, user: u, namespace: mine}}
- {name: "arn:aws:eks:x/b c", context: {cluster: two, user: u}}
clusters:
- {name: one, cluster: {server: "https://one:6443"}}
- {name: two, cluster: {server: "https://two"}}
"""


def request(**fields: Any) -> Any:
    options = fields.pop("options", {})
    return parse_request({"platform": "kubernetes", "image": "i", "options": {"kubernetes": options}, **fields})


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "config").write_text(TWO)
    return str(tmp_path / "config")


def test_context_and_namespace_by_option_variable_and_kubeconfig(config: str) -> None:
    plain = {"KUBECONFIG": config}
    assert choose(Credentials(plain)) == Account("a", "mine", "https://one:6443")
    assert choose(Credentials({**plain, "TAO_K8S_NAMESPACE": "n"})).namespace == "n"
    other = choose(Credentials({**plain, "TAO_K8S_CONTEXT": "arn:aws:eks:x/b c"}))
    assert (other.namespace, other.server) == ("default", "https://two")
    assert choose(Credentials({**plain, "TAO_K8S_CONTEXT": "nope"}), "a", "team") == Account(
        "a", "team", "https://one:6443"
    )
    assert Account.parse(str(other)) == other


def test_files_of_kubeconfig_are_merged_first_one_wins(config: str, tmp_path: Path) -> None:
    (tmp_path / "first").write_text("current-context: c\ncontexts: [{name: c, context: {cluster: one}}]")
    found = choose(Credentials({"KUBECONFIG": f"{tmp_path / 'first'}:{config}"}))
    assert found == Account("c", "default", "https://one:6443")


def test_what_is_wrong_with_the_kubeconfig_is_said(config: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no context 'x'.*there are: a"):
        choose(Credentials({"KUBECONFIG": config}), "x")
    with pytest.raises(CredentialMissing, match="does not exist"):
        choose(Credentials({"KUBECONFIG": str(tmp_path / "none")}))
    with pytest.raises(CredentialMissing, match="no kubeconfig"):
        choose(Credentials({}))
    (tmp_path / "bad").write_text("a: [")
    with pytest.raises(UsageError, match="cannot read"):
        choose(Credentials({"KUBECONFIG": str(tmp_path / "bad")}))


def test_inside_a_pod(cluster: FakeKubernetes, tmp_path: Path) -> None:
    for name, text in (("token", "admintoken"), ("namespace", "kube-system"), ("ca.crt", "not used over http")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    sdk = KubernetesSDK(credentials=Credentials(environ), service_account=tmp_path)
    assert sdk.account(request()) == "in-cluster/kube-system https://10.0.0.1:443"


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ('{"cluster": "fake", ', '{"cluster": "gone", ', "does not give access"),
        ('{"token": "admintoken"}', '{"exec": {"apiVersion": "v1", "command": "/no/such/tool"}}', "does not accept"),
    ],
)
def test_a_broken_login_is_no_traceback(
    cluster: FakeKubernetes, tmp_path: Path, good: str, bad: str, said: str
) -> None:
    path = cluster.kubeconfig(tmp_path / "config")
    path.write_text(path.read_text().replace(good, bad))
    sdk = KubernetesSDK(credentials=Credentials({"KUBECONFIG": str(path)}))
    with pytest.raises(CredentialError, match=said):
        sdk.resources()


def test_all_checks_pass_on_a_good_cluster(sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    cluster.objects.create(
        "persistentvolumeclaims", "default", {"metadata": {"name": "c"}, "status": {"phase": "Bound"}}
    )
    cluster.objects.create("localqueues", "default", {"metadata": {"name": "q"}})
    wanted = request(nodes=2, gpus=8, options={"pvc": "c:/data", "queue": "q"})
    checks = {check.id: check for check in sdk.check_access(wanted)}
    assert {check.status for check in checks.values()} == {"ok"}
    assert "2 nodes fit; 2 of them have that free now" in checks["kubernetes-capacity"].detail


def test_what_does_not_exist_is_named_with_what_to_do(sdk: KubernetesSDK) -> None:
    options = {"pvc": "c:/data", "queue": "q", "service_account": "s", "priority_class": "p", "image_pull_secret": "x"}
    options["namespace"] = "nowhere"
    failed = {check.id for check in sdk.check_access(request(gpus=1, options=options)) if check.status == "failed"}
    resources = ("namespaces", "persistentvolumeclaims", "localqueues", "serviceaccounts", "priorityclasses", "secrets")
    assert failed == {f"kubernetes-{resource}" for resource in resources}
    assert all(check.fix for check in sdk.check_access(request(options=options)) if check.status == "failed")


def test_eight_gpus_on_eight_nodes_of_one_are_no_room_for_eight(
    make_sdk: Callable[..., KubernetesSDK], cluster: FakeKubernetes
) -> None:
    for name in ("node1", "node2"):
        cluster.objects.delete("nodes", "", name, {})
    for number in range(8):
        cluster.node(f"small{number}", gpus=1)
    checks = {check.id: check for check in make_sdk().check_access(request(gpus=8))}
    assert checks["kubernetes-capacity"].status == "failed"
    assert "8 with 1 nvidia.com/gpu" in checks["kubernetes-capacity"].detail


def test_missing_rights_are_listed_together(make_sdk: Callable[..., KubernetesSDK], cluster: FakeKubernetes) -> None:
    cluster.users["t"] = User("bob", [("default", "jobs", {"get", "list"}), ("default", "pods", {"*"})])
    checks = {check.id: check for check in make_sdk("t").check_access(request(secrets={"HF_TOKEN": "HF_TOKEN"}))}
    rights = checks["kubernetes-rights"]
    assert rights.status == "failed"
    assert [word in rights.detail for word in ("create jobs", "delete jobs", "create secrets")] == [True] * 3
    assert "list jobs" not in rights.detail


def test_a_refused_token_is_one_failed_check(make_sdk: Callable[..., KubernetesSDK]) -> None:
    (check,) = make_sdk("wrong").check_access(request())
    assert (check.id, check.status) == ("kubernetes-access", "failed")
    with pytest.raises(CredentialRefused):
        make_sdk("wrong").resources()


def test_resources_show_each_node_and_what_is_free(sdk: KubernetesSDK, jobs: Jobs, cluster: FakeKubernetes) -> None:
    cluster.node("node3", gpus=4, labels={"nvidia.com/gpu.product": "H100"}, unschedulable=True)
    job = jobs.start("sleep 20", gpus=3, node_selector="")
    jobs.until(job, lambda s: s.state is JobState.RUNNING)
    (table,) = sdk.resources()
    rows = {row[0]: row for row in table.rows}
    assert sorted([rows["node1"][2], rows["node2"][2]]) == ["5", "8"]
    assert rows["node3"][1:] == ("4", "4", "H100", "cordoned", "")
    sdk.cancel(job, delete=True)


def test_resources_need_the_right_to_see_nodes(make_sdk: Callable[..., KubernetesSDK], cluster: FakeKubernetes) -> None:
    cluster.users["t"] = User("bob", [("default", "*", {"*"})])
    with pytest.raises(PermissionRefused, match="nodes"):
        make_sdk("t").resources()


def node(gpus: Any = 8, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": spec.pop("ready", "True")}]
    status = {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": ready}
    return {"metadata": {"name": "n", "labels": labels or {}}, "spec": spec, "status": status}


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("one", "need", "fits"),
    [
        (node(), {}, True),
        (node("8"), {}, True),
        (node(4), {}, False),
        (node(labels={"a": "b"}), {"selector": {"a": "b"}}, True),
        (node(), {"selector": {"a": "b"}}, False),
        (node(unschedulable=True), {}, False),
        (node(ready="False"), {}, False),
        (node(taints=[TAINT]), {}, False),
        (node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), {}, True),
        (node(taints=[TAINT]), {"tolerations": [{"key": "team", "operator": "Exists"}]}, True),
        (node(taints=[TAINT]), {"tolerations": [{"key": "team", "value": "b"}]}, False),
        (node(taints=[TAINT]), {"tolerations": [{"key": "team", "value": "a", "effect": "NoExecute"}]}, False),
        (node(taints=[TAINT]), {"tolerations": [{"operator": "Exists"}]}, True),
        (node(taints=[TAINT]), {"tolerations": [{"key": "other", "operator": "Exists"}]}, False),
    ],
)
def test_what_fits_on_a_node(one: dict[str, Any], need: dict[str, Any], fits: bool) -> None:
    wanted = capacity.Need(8, "nvidia.com/gpu", need.get("selector", {}), need.get("tolerations", ()))
    found = capacity.fit([one], [], wanted)
    assert (found.fitting == 1) is fits
    assert bool(found.obstacles) is not fits


@pytest.mark.parametrize(
    ("fields", "options", "bucket", "where"),
    [
        ({"results": "s3://b/r/"}, {}, "", "s3://b/r/ID"),
        ({}, {}, "bucket", "s3://bucket/results/ID"),
        ({}, {"pvc": "ro:/ro:ro,c:/claim"}, "", "/claim/results/ID"),
        ({"results": "/claim/out"}, {"pvc": "c:/claim"}, "bucket", "/claim/out/ID"),
        ({"mount": "/lustre"}, {}, "", "/lustre/results/ID"),
        ({}, {}, "", ""),
    ],
)
def test_where_results_go(fields: dict[str, Any], options: dict[str, Any], bucket: str, where: str) -> None:
    sdk = KubernetesSDK(credentials=Credentials({"S3_BUCKET_NAME": bucket}))
    assert sdk.results_dir(request(options=options, **fields), "ID") == where


def test_results_in_a_relative_directory_are_refused() -> None:
    with pytest.raises(UsageError, match="current directory"):
        KubernetesSDK(credentials=Credentials({})).results_dir(request(results="out"), "ID")


def test_results_that_go_with_the_pod_are_noted(jobs: Jobs) -> None:
    assert "go with it" in jobs.prepare().notes[0]
    assert "is on no mount" in jobs.prepare(results="/elsewhere").notes[0]
    assert jobs.prepare(results="/data/out", pvc="c:/data").notes == ()


def test_results_on_a_mount_are_not_listed_from_here(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job, _ = jobs.build(results="/data/out", pvc="c:/data")
    with pytest.raises(UsageError, match="mount of the cluster"):
        sdk.list_results(job)
