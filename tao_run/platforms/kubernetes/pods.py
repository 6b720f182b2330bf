"""What a pod tells: its rank, whether it runs, what keeps it from running, how its container ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tao_run.jobs.model import Replica
from tao_run.platforms.kubernetes import names
from tao_run.platforms.kubernetes.quantities import number

Object = Mapping[str, Any]

#: waiting reasons of a container that are a step of a healthy start, not an issue
STARTING = frozenset({"ContainerCreating", "PodInitializing", ""})
#: reasons for which a pod does not start, the one that needs a person most first
_GRAVITY = (
    "InvalidImageName", "ErrImageNeverPull", "ImagePullBackOff", "ErrImagePull", "ImageInspectError",
    "RegistryUnavailable", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
    "CrashLoopBackOff", "Unschedulable", "SchedulingGated",
)  # fmt: skip
_VICTIMS = (137, 143)


@dataclass(frozen=True)
class Ended:
    """How a container ended. `finished` is empty if the node never said."""

    exit_code: int
    reason: str
    message: str
    finished: str


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 time of the API, to the microsecond."""
    if not text:
        return None
    head, dot, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{head}{dot}{fraction[:6].ljust(6, '0') if dot else ''}+00:00")


def rank(pod: Object) -> int | None:
    """The completion index of an Indexed Job's pod; 0 for the pod of a single-node Job."""
    meta = pod["metadata"]
    text = (meta.get("annotations") or {}).get(names.INDEX) or (meta.get("labels") or {}).get(names.INDEX)
    return int(text) if text is not None else 0


def phase(pod: Object) -> str:
    """Pending, Running, Succeeded, Failed or Unknown; Terminating once it is being deleted."""
    native = str((pod.get("status") or {}).get("phase") or "Pending")
    if pod["metadata"].get("deletionTimestamp") and native in ("Pending", "Running"):
        return "Terminating"
    return native


def container(pod: Object) -> Mapping[str, Any]:
    """The status of our container (a sidecar may stand beside it), empty before there is one."""
    statuses: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("containerStatuses") or []
    ours = [status for status in statuses if status.get("name") == names.CONTAINER]
    return (ours or list(statuses) or [{}])[0]


def is_running(pod: Object) -> bool:
    """Whether the job's process runs in it. The phase Running alone does not say so with sidecars."""
    return "running" in (container(pod).get("state") or {})


def ended(pod: Object) -> Ended | None:
    """How the container ended: its last state when it was started again, which tells of OOM kills."""
    status = container(pod)
    for state in (status.get("state"), status.get("lastState")):
        found = (state or {}).get("terminated")
        if found:
            reason, message = str(found.get("reason") or ""), str(found.get("message") or "")
            return Ended(int(found.get("exitCode", -1)), reason, message, str(found.get("finishedAt") or ""))
    return None


def issue(pod: Object) -> tuple[str, str]:
    """Why a pod is not running as it should: reason and message, both empty if nothing is wrong."""
    status = pod.get("status") or {}
    if status.get("reason"):  # Evicted, NodeLost, Shutdown, DeadlineExceeded: the kubelet's word on the whole pod
        return str(status["reason"]), str(status.get("message") or "")
    done = ended(pod)
    if done and done.reason == "OOMKilled":
        return "OOMKilled", done.message or "the container used more memory than its limit"
    for state in _container_states(status):
        waiting = state.get("waiting") or {}
        if waiting.get("reason", "") not in STARTING:
            return str(waiting["reason"]), _with_image(pod, waiting)
    if done and done.exit_code != 0:
        return done.reason or "Error", done.message or f"exit code {done.exit_code}"
    for entry in status.get("conditions") or []:
        if entry.get("type") == "PodScheduled" and entry.get("status") == "False":
            return str(entry.get("reason") or "Unschedulable"), str(entry.get("message") or "")
        if entry.get("type") == "DisruptionTarget" and entry.get("status") == "True":
            return str(entry.get("reason") or "Disrupted"), str(entry.get("message") or "")
    return "", ""


def _with_image(pod: Object, waiting: Mapping[str, Any]) -> str:
    """The kubelet's message, with the image where it is about the image and does not name it."""
    message = str(waiting.get("message") or "")
    image = str((pod["spec"].get("containers") or [{}])[0].get("image") or "")
    about_image = "Image" in str(waiting["reason"]) and image not in message
    return f"{image}: {message}" if about_image and message else message


def _container_states(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for key in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(key) or []:
            yield entry.get("state") or {}


def starting(pod: Object) -> str:
    """The step of a healthy start that a pod is at, empty if it is not starting."""
    for state in _container_states(pod.get("status") or {}):
        reason = (state.get("waiting") or {}).get("reason")
        if reason:
            return str(reason)
    return "ContainerCreating" if pod["spec"].get("nodeName") else "Scheduling"


def newest_per_rank(pods: Iterable[Object]) -> list[Object]:
    """The pods that count, by rank: a replaced pod (evicted, its node lost) is history."""
    found: dict[int | None, Object] = {}
    for pod in sorted(pods, key=_age):
        found[rank(pod)] = pod
    return [found[key] for key in sorted(found, key=lambda r: -1 if r is None else r)]


def _age(pod: Object) -> tuple[str, bool]:
    live = phase(pod) not in ("Failed", "Terminating")
    return str(pod["metadata"].get("creationTimestamp") or ""), live


def worst_issue(pods: Iterable[Object]) -> tuple[Object, str, str] | None:
    """The pod whose issue most needs a person, with the issue."""
    found = [(pod, *issue(pod)) for pod in pods]
    with_issue = [entry for entry in found if entry[1]]
    return min(with_issue, key=lambda entry: _gravity(entry[1]), default=None)


def _gravity(reason: str) -> int:
    return _GRAVITY.index(reason) if reason in _GRAVITY else len(_GRAVITY)


def first_failure(pods: Iterable[Object]) -> tuple[Object, Ended] | None:
    """The pod that failed first. Ranks that were killed (137, 143) after another failed are its victims."""
    failed = [(pod, end) for pod in pods if (end := ended(pod)) is not None and end.exit_code != 0]
    return min(failed, key=_order_of_failure, default=None)


def _order_of_failure(entry: tuple[Object, Ended]) -> tuple[bool, str, int]:
    pod, end = entry
    victim = end.exit_code in _VICTIMS and end.reason != "OOMKilled"
    return victim, end.finished or "9", rank(pod) or 0


def replica_of(pod: Object) -> Replica:
    """One worker, as all platforms show it."""
    reason, message = issue(pod)
    done = ended(pod)
    resources = (pod["spec"].get("containers") or [{}])[0].get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    memory = number(asked["memory"]) if "memory" in asked else None
    selector = pod["spec"].get("nodeSelector") or {}
    return Replica(
        rank=rank(pod),
        name=str(pod["metadata"]["name"]),
        node=str(pod["spec"].get("nodeName") or ""),
        node_group=",".join(f"{key}={value}" for key, value in selector.items()),
        cpu=number(asked["cpu"]) if "cpu" in asked else None,
        memory_mb=None if memory is None else int(memory / 1e6),
        phase=phase(pod),
        ready=is_running(pod) if done is None else None,
        exit_code=done.exit_code if done else None,
        issue_reason=reason,
        issue_message=message,
    )


def plain_row(replica: Replica) -> dict[str, Any]:
    """A worker as plain data, its readiness issue as one object, or without one."""
    status: dict[str, Any] = {
        "node": {"name": replica.node, "node_group_id": replica.node_group},
        "cpu": replica.cpu,
        "memory_in_mb": replica.memory_mb,
        "phase": replica.phase,
    }
    if replica.issue_reason:
        status["readiness_issue"] = {"reason": replica.issue_reason, "message": replica.issue_message}
    return {"metadata": {"id": replica.name, "rank": replica.rank}, "status": status}
