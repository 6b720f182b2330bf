"""Preflight: can this user, in this namespace, run this job, and is there a node that could hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tao_run.errors import BackendUnreachable, CredentialError, NotFound, PermissionRefused, TaoRunError
from tao_run.jobs.model import Check
from tao_run.platforms.kubernetes import capacity
from tao_run.platforms.kubernetes.client import Api
from tao_run.platforms.kubernetes.options import Options

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest

_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#: what submit, status, logs and cancel need, as (group, resource, subresource, verb)
_RIGHTS = (
    ("batch", "jobs", "", "create"), ("batch", "jobs", "", "get"), ("batch", "jobs", "", "list"),
    ("batch", "jobs", "", "patch"), ("batch", "jobs", "", "delete"),
    ("", "pods", "", "get"), ("", "pods", "", "list"), ("", "pods", "log", "get"),
)  # fmt: skip


def checks(api: Api, request: JobRequest | None, options: Options, needs_secret: bool) -> list[Check]:
    """All checks, even when one fails; only when the cluster does not answer are the others skipped."""
    where = f"namespace {api.account.namespace} of {api.account.context}"
    try:
        version = api.call("GET", "/version")
        rights = _rights(api, request, needs_secret, where)
    except (BackendUnreachable, CredentialError) as error:
        return [Check("kubernetes-access", "failed", error.message, error.hint)]
    reached = Check("kubernetes-access", "ok", f"{api.server} answers (Kubernetes {version.get('gitVersion', '?')})")
    return [reached, rights, *_named(api, options), _room(api, request, options)]


def _rights(api: Api, request: JobRequest | None, needs_secret: bool, where: str) -> Check:
    wanted = list(_RIGHTS)
    if needs_secret:
        wanted.append(("", "secrets", "", "create"))
    if request is not None and request.nodes > 1:
        wanted.append(("", "services", "", "create"))
    missing = [
        f"{verb} {resource}{f'/{sub}' if sub else ''}"
        for group, resource, sub, verb in wanted
        if not _may(api, group, resource, sub, verb)
    ]
    if missing:
        fix = "ask the cluster's administrator for a Role with these rights"
        return Check("kubernetes-rights", "failed", f"not allowed in {where}: {', '.join(missing)}", fix)
    return Check("kubernetes-rights", "ok", f"all rights needed in {where}")


def _may(api: Api, group: str, resource: str, subresource: str, verb: str) -> bool:
    asked = {"namespace": api.account.namespace, "verb": verb, "group": group, "resource": resource}
    if subresource:
        asked["subresource"] = subresource
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    return bool((api.call("POST", _REVIEW, {}, body).get("status") or {}).get("allowed"))


def _named(api: Api, options: Options) -> Iterator[Check]:
    """One check for each object that the options name."""
    wanted = [("persistentvolumeclaims", name) for name in dict.fromkeys(mount.source for mount in options.pvc)]
    wanted += [("secrets", name) for name in options.image_pull_secret]
    wanted.insert(0, ("namespaces", api.account.namespace))
    for resource, name in (
        ("serviceaccounts", options.service_account),
        ("priorityclasses", options.priority_class),
        ("localqueues", options.queue),
    ):
        if name:
            wanted.append((resource, name))
    for resource, name in wanted:
        yield _exists(api, resource, name)


def _exists(api: Api, resource: str, name: str) -> Check:
    check_id, what = f"kubernetes-{resource}", f"{resource.removesuffix('s')} {name}"
    try:
        found = api.get(resource, name)
    except NotFound as error:
        hint = "Kueue is not installed there, or the queue is in another namespace" if resource == "localqueues" else ""
        return Check(check_id, "failed", f"{what}: {error.message}", hint or f"`kubectl get {resource}` lists them")
    except PermissionRefused:
        return Check(check_id, "skipped", f"{what}: you may not look at it")
    except TaoRunError as error:
        return Check(check_id, "failed", f"{what}: {error.message}", error.hint)
    phase = str((found.get("status") or {}).get("phase") or "")
    if resource == "persistentvolumeclaims" and phase == "Lost":
        return Check(check_id, "failed", f"{what} has lost its volume", "create the claim anew")
    return Check(check_id, "ok", f"{what} exists{f' ({phase})' if phase else ''}")


def _room(api: Api, request: JobRequest | None, options: Options) -> Check:
    """Whether enough single nodes could each hold one pod. Without the right to see nodes nobody can tell."""
    gpus = 0 if request is None else request.gpus_or(1)
    wanted = 1 if request is None else request.nodes
    need = capacity.Need(gpus, options.gpu_resource, options.node_selector, options.tolerations)
    try:
        nodes = api.list("nodes")
        fit = capacity.fit(nodes, _running_pods(api), need)
    except PermissionRefused:
        return Check("kubernetes-capacity", "skipped", "you may not list the cluster's nodes")
    except TaoRunError as error:
        return Check("kubernetes-capacity", "failed", error.message, error.hint)
    return _verdict(fit, wanted, gpus, options.gpu_resource)


def _running_pods(api: Api) -> list[dict[str, Any]] | None:
    try:
        return api.list("pods", fields="status.phase!=Succeeded,status.phase!=Failed", everywhere=True)
    except PermissionRefused:
        return None


def _verdict(fit: capacity.Fit, wanted: int, gpus: int, resource: str) -> Check:
    asked = f"{wanted} node{'s' if wanted > 1 else ''} with {gpus} {resource} each"
    if fit.fitting >= wanted:
        now = "" if fit.free_now is None else f"; {fit.free_now} of them have that free now"
        return Check("kubernetes-capacity", "ok", f"{asked}: {fit.fitting} nodes fit{now}")
    others = ", ".join(f"{count} {text}" for text, count in sorted(fit.obstacles.items()))
    why = f"only {fit.fitting} fit; the others: {others}" if others else "the cluster has no nodes"
    fix = "ask for fewer GPUs per node, or set node_selector, tolerations"
    return Check("kubernetes-capacity", "failed", f"{asked}: {why}", fix)
