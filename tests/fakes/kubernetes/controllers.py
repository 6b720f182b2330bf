"""What the control plane does: schedules pods, drives Jobs to their conditions, ends and collects them."""

from __future__ import annotations

import copy
import datetime
import time
import uuid
from typing import Any

from tests.fakes.kubernetes.kubelet import Kubelet
from tests.fakes.kubernetes.objects import Objects, now

Obj = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"


def admit_job(resource: str, obj: Obj) -> None:
    """What the API server and Kueue's webhook set on a new Job."""
    if resource != "jobs":
        return
    spec, name = obj["spec"], obj["metadata"]["name"]
    if "kueue.x-k8s.io/queue-name" in (obj["metadata"].get("labels") or {}):
        spec["suspend"] = True
    spec.setdefault("completions", 1)
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels.update({"job-name": name, "batch.kubernetes.io/job-name": name})
    obj["status"] = {}


class ControlPlane:
    """Scheduler and Job controller over the object store."""

    def __init__(self, objects: Objects, kubelet: Kubelet) -> None:
        self.objects, self.kubelet = objects, kubelet
        self.enabled = True
        self._deadlines: dict[str, float] = {}

    def tick(self) -> None:
        """One round of all controllers."""
        with self.objects.lock:
            for job in self.objects.each("jobs"):
                self._job(job)
            for pod in self.objects.each("pods"):
                self._schedule(pod)
            self.kubelet.tick()

    def _job(self, job: Obj) -> None:
        pods = self._pods(job)
        if job["metadata"].get("deletionTimestamp"):
            if not pods:
                self.objects.remove("jobs", job)
            return
        if condition(job, "Complete") or condition(job, "Failed"):
            self._collect(job)
        elif job["spec"].get("suspend"):
            self._suspend(job, pods)
        elif self.enabled:
            self._drive(job, pods)

    def _pods(self, job: Obj) -> list[Obj]:
        uid = job["metadata"]["uid"]
        return [
            pod
            for pod in self.objects.each("pods", job["metadata"]["namespace"])
            if any(ref["uid"] == uid for ref in pod["metadata"].get("ownerReferences") or [])
        ]

    def _collect(self, job: Obj) -> None:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        ended = max(c["lastTransitionTime"] for c in job["status"]["conditions"])
        when = datetime.datetime.strptime(ended, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
        if ttl is not None and time.time() > when.timestamp() + ttl:
            self.objects.remove("jobs", job)

    def _suspend(self, job: Obj, pods: list[Obj]) -> None:
        for pod in pods:
            self._delete(pod)
        job["status"]["_seen"] = []
        if not condition(job, "Suspended"):
            self._set(job, "Suspended", "JobSuspended", "Job suspended")
            job["status"].pop("startTime", None)

    def _drive(self, job: Obj, pods: list[Obj]) -> None:
        status, spec = job["status"], job["spec"]
        if "startTime" not in status:
            status["startTime"] = now()
            self._deadlines[job["metadata"]["uid"]] = time.monotonic()
            status["conditions"] = [c for c in status.get("conditions", []) if c["type"] != "Suspended"]
            self.objects.touch(job)
        known = set(status.setdefault("_seen", []))
        lost = known - {pod["metadata"]["uid"] for pod in pods} - set(status.get("_counted", []))
        ended = {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Failed"}
        failed = len(set(status.get("_counted", [])) | lost | ended)
        status["_counted"] = sorted(set(status.get("_counted", [])) | lost | ended)
        done = {self._slot(p): p for p in pods if p["status"]["phase"] == "Succeeded"}
        active = [p for p in pods if p["status"]["phase"] in ("Pending", "Running")]
        self._count(job, active=len(active), succeeded=len(done), failed=failed)
        limit = spec.get("activeDeadlineSeconds")
        age = time.monotonic() - self._deadlines.get(job["metadata"]["uid"], time.monotonic())
        if limit is not None and age > limit:
            self._fail(job, active, "DeadlineExceeded", "Job was active longer than specified deadline")
        elif failed > spec["backoffLimit"]:
            self._fail(job, active, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif len(done) >= spec["completions"]:
            status["completionTime"] = now()
            self._set(job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        else:
            self._fill(job, active, set(done))

    @staticmethod
    def _slot(pod: Obj) -> str:
        return str(pod["metadata"].get("annotations", {}).get(INDEX, pod["metadata"]["name"]))

    def _count(self, job: Obj, **counts: int) -> None:
        if any(job["status"].get(key, 0) != value for key, value in counts.items()):
            job["status"].update(counts)
            self.objects.touch(job)

    def _fail(self, job: Obj, active: list[Obj], reason: str, message: str) -> None:
        for pod in active:
            self._delete(pod)
        self._count(job, active=0, failed=job["status"].get("failed", 0) + len(active))
        self._set(job, "Failed", reason, message)
        self.objects.event(job, reason, message)

    def _delete(self, pod: Obj) -> None:
        if not pod["metadata"].get("deletionTimestamp"):
            self.objects.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], {})

    def _set(self, job: Obj, kind: str, reason: str, message: str) -> None:
        entry = {"type": kind, "status": "True", "reason": reason, "message": message}
        stamps = {"lastProbeTime": now(), "lastTransitionTime": now()}
        job["status"].setdefault("conditions", []).append({**entry, **stamps})
        self.objects.touch(job)

    def _fill(self, job: Obj, active: list[Obj], done: set[str]) -> None:
        spec = job["spec"]
        if spec.get("completionMode") != "Indexed":
            if not active:
                self._create(job, None)
            return
        held = {self._slot(pod) for pod in active} | done
        for index in range(spec["completions"]):
            if str(index) not in held and len(active) < spec["parallelism"]:
                self._create(job, index)

    def _create(self, job: Obj, index: int | None) -> None:
        template, meta = copy.deepcopy(job["spec"]["template"]), job["metadata"]
        annotations = template["metadata"].setdefault("annotations", {})
        middle = "" if index is None else f"-{index}"
        if index is not None:
            annotations[INDEX] = str(index)
            template["metadata"]["labels"][INDEX] = str(index)
            template["spec"]["hostname"] = f"{meta['name']}-{index}"
            for container in template["spec"]["containers"]:
                variable = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
                container.setdefault("env", []).append(variable)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        pod = {
            "metadata": {
                "name": f"{meta['name']}{middle}-{uuid.uuid4().hex[:5]}",
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending", "conditions": []},
        }
        created = self.objects.create("pods", meta["namespace"], pod)
        job["status"]["_seen"].append(created["metadata"]["uid"])
        job["status"]["active"] = job["status"].get("active", 0) + 1

    def _schedule(self, pod: Obj) -> None:
        if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            return
        nodes = self.objects.each("nodes")
        for node in nodes:
            if not self._refusal(pod, node):
                pod["spec"]["nodeName"] = node["metadata"]["name"]
                pod["status"].update(hostIP="127.0.0.1", podIP="127.0.0.1")
                pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
                self.objects.touch(pod)
                return
        reasons = sorted({self._refusal(pod, node) for node in nodes})
        message = f"0/{len(nodes)} nodes are available: {', '.join(reasons)}."
        entry = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        if pod["status"]["conditions"] != [entry]:
            pod["status"]["conditions"] = [entry]
            self.objects.touch(pod)
            self.objects.event(pod, "FailedScheduling", message)

    def _refusal(self, pod: Obj, node: Obj) -> str:
        selector = pod["spec"].get("nodeSelector") or {}
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            return "node(s) didn't match Pod's node affinity/selector"
        if node["spec"].get("unschedulable"):
            return "node(s) were unschedulable"
        tolerated = {t.get("key") for t in pod["spec"].get("tolerations") or []}
        for taint in node["spec"].get("taints") or []:
            if taint["key"] not in tolerated and None not in tolerated:
                return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
        for resource, wanted in _requests(pod).items():
            free = int(node["status"]["allocatable"].get(resource, 0)) - self._used(node, resource)
            if "/" in resource and wanted > free:
                return f"Insufficient {resource}"
        return ""

    def _used(self, node: Obj, resource: str) -> int:
        name = node["metadata"]["name"]
        live = [p for p in self.objects.each("pods") if p["spec"].get("nodeName") == name]
        return sum(_requests(p).get(resource, 0) for p in live if p["status"]["phase"] in ("Pending", "Running"))


def condition(job: Obj, kind: str) -> Obj | None:
    conditions = job["status"].get("conditions") or []
    return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)


def _requests(pod: Obj) -> dict[str, int]:
    limits = [container.get("resources", {}).get("limits") or {} for container in pod["spec"]["containers"]]
    return {key: int(value) for each in limits for key, value in each.items() if "/" in key}
