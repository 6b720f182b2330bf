"""Which nodes could hold a pod of a job: GPUs per node, never their sum; labels, taints, readiness. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tao_run.jobs.model import ResourceTable
from tao_run.platforms.kubernetes import pods
from tao_run.platforms.kubernetes.quantities import number

Object = Mapping[str, Any]
_PRODUCT = "nvidia.com/gpu.product"
_BLOCKING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class Need:
    """What one pod asks of its node."""

    gpus: int
    gpu_resource: str
    selector: Mapping[str, str]
    tolerations: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Fit:
    """How many nodes could ever hold a pod, how many could now (None: not allowed to see), and why others cannot."""

    fitting: int
    free_now: int | None
    obstacles: Mapping[str, int]


def fit(nodes: Sequence[Object], running: Sequence[Object] | None, need: Need) -> Fit:
    """Compare one pod's need with each node. `running` are all pods of the cluster, or None if not visible."""
    obstacles: dict[str, int] = {}
    fitting, free = [], 0
    used = used_per_node(running or [], need.gpu_resource)
    for node in nodes:
        obstacle = _obstacle(node, need)
        if obstacle:
            obstacles[obstacle] = obstacles.get(obstacle, 0) + 1
            continue
        fitting.append(node)
        free += gpus_of(node, need.gpu_resource) - used.get(node["metadata"]["name"], 0) >= need.gpus
    return Fit(len(fitting), free if running is not None else None, obstacles)


def gpus_of(node: Object, resource: str) -> int:
    """GPUs that the node offers to pods."""
    return int(number(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0)))


def used_per_node(running: Iterable[Object], resource: str) -> dict[str, int]:
    """GPUs that pods hold, by node."""
    used: dict[str, int] = {}
    for pod in running:
        node = pod["spec"].get("nodeName")
        if node and pods.phase(pod) in ("Pending", "Running", "Terminating"):
            asked = sum(number(_limits(one).get(resource, 0)) for one in pod["spec"].get("containers") or [])
            used[node] = used.get(node, 0) + int(asked)
    return used


def _limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get("limits") or {}


def _obstacle(node: Object, need: Need) -> str:
    labels = node["metadata"].get("labels") or {}
    missing = [f"{key}={value}" for key, value in need.selector.items() if labels.get(key) != value]
    if missing:
        return f"without label {', '.join(missing)}"
    if (node.get("spec") or {}).get("unschedulable"):
        return "cordoned"
    if not _is_ready(node):
        return "not ready"
    taint = next((t for t in (node.get("spec") or {}).get("taints") or [] if _blocks(t, need.tolerations)), None)
    if taint:
        return f"with taint {taint.get('key')}{'=' + taint['value'] if taint.get('value') else ''}:{taint['effect']}"
    offered = gpus_of(node, need.gpu_resource)
    return f"with {offered} {need.gpu_resource}" if offered < need.gpus else ""


def _is_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)


def _blocks(taint: Mapping[str, Any], tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return taint.get("effect") in _BLOCKING and not any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def table(nodes: Sequence[Object], running: Sequence[Object] | None, resource: str) -> ResourceTable:
    """The cluster's nodes as rows: what each offers, what is free, what keeps pods away."""
    used = used_per_node(running or [], resource)
    rows = []
    for node in sorted(nodes, key=lambda n: str(n["metadata"]["name"])):
        name, offered = str(node["metadata"]["name"]), gpus_of(node, resource)
        free = "?" if running is None else str(max(0, offered - used.get(name, 0)))
        product = str((node["metadata"].get("labels") or {}).get(_PRODUCT, ""))
        spec = node.get("spec") or {}
        state = "cordoned" if spec.get("unschedulable") else "ready" if _is_ready(node) else "not ready"
        taints = ",".join(f"{t.get('key')}:{t.get('effect')}" for t in spec.get("taints") or [])
        rows.append((name, str(offered), free, product, state, taints))
    return ResourceTable("Nodes", ("node", resource, "free", "product", "state", "taints"), tuple(rows))
