"""What the fake workspace holds, and the answers it gives: plain functions over documents, no HTTP."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

from .jobs import ENDED, FakeJob, JobRunner, new_job, now_ms

Answer = tuple[int, Any]
Query = dict[str, list[str]]

NAME = re.compile(r"[a-z][a-z0-9-]{0,34}[a-z0-9]|[a-z]")
MAX_LOG_LIMIT = 10_000


def fail(status: int, code: str, message: str) -> Answer:
    """An error in the service's shape. Never repeats the request: it may hold secrets."""
    return status, {"code": code, "message": message}


def first(query: Query, key: str, default: str = "") -> str:
    """The first value of a query parameter."""
    return query.get(key, [default])[0]


class FakeWorkspace:
    """The state of one workspace. Tests reach in and edit; the HTTP layer only asks."""

    def __init__(self, volumes: dict[str, Path] | None = None, run_jobs: bool = True) -> None:
        self.lock = threading.RLock()
        self.owner = "ann@example.com"
        self.jobs: dict[str, FakeJob] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.pull_secrets: dict[str, dict[str, Any]] = {}
        self.node_groups: list[dict[str, Any]] = default_node_groups()
        self.shapes: dict[str, list[dict[str, Any]]] = default_shapes()
        self.permissions: dict[tuple[str, str], list[dict[str, Any]]] = default_permissions()
        self.run_jobs = run_jobs
        self.max_page_size = 500
        self.honour_paging = True
        self.runner = JobRunner(self.secret_value, volumes or {})

    def secret_value(self, name: str) -> str | None:
        """The value a job sees for a secret reference."""
        secret = self.secrets.get(name)
        return None if secret is None else str(secret["value"])

    def add_job(self, name: str = "a", *, labels: dict[str, str] | None = None, **status: Any) -> FakeJob:
        """A job that does not run: tests set its documents themselves."""
        body = {"metadata": {"name": name, "labels": labels or {}}, "spec": {"completions": 1}}
        job = new_job(body, self.owner)
        job.status.update(status)
        with self.lock:
            self.jobs[job.id] = job
        return job

    # -- jobs ---------------------------------------------------------------------------------------

    def create_job(self, body: dict[str, Any]) -> Answer:
        """POST /jobs. Names need not be unique: the id gets a suffix."""
        metadata = body.get("metadata") or {}
        if not NAME.fullmatch(str(metadata.get("id") or metadata.get("name") or "")):
            return fail(400, "InvalidRequest", "invalid job name")
        for item in (body.get("spec") or {}).get("envs") or []:
            reference = (item.get("value_from") or {}).get("secret_name_ref")
            if reference and reference not in self.secrets:
                return fail(400, "InvalidRequest", f"secret {reference} not found")
        job = new_job(body, self.owner)
        with self.lock:
            self.jobs[job.id] = job
        if self.run_jobs and not job.spec.get("stopped"):
            self.runner.start(job)
        return 201, job.document()

    def list_jobs(self, query: Query) -> Answer:
        """GET /jobs with the filters of the API; never null, empty past the end."""
        with self.lock:
            jobs = [job for job in self.jobs.values() if _selected(job, query)]
        jobs.sort(key=lambda job: int(job.metadata["created_at"]), reverse=True)
        size = min(int(first(query, "page_size", "500")), self.max_page_size)
        start = (int(first(query, "page", "1")) - 1) * size if self.honour_paging else 0
        page = jobs[start : start + size]
        return 200, {"jobs": [job.document() for job in page], "total": len(jobs)}

    def find_job(self, job_id: str, query: Query) -> FakeJob | None:
        """A job by id only, in the asked query mode (alive_and_archive if not said)."""
        job = self.jobs.get(job_id)
        mode = first(query, "job_query_mode", "alive_and_archive")
        return job if job is not None and _in_mode(job, mode) else None

    def patch_job(self, job: FakeJob, body: dict[str, Any]) -> Answer:
        """PATCH: a merge patch; ``stopped`` stops and starts."""
        changes = body.get("spec") or {}
        job.spec.update(changes)
        job.metadata.update(body.get("metadata") or {})
        if changes.get("stopped") is True:
            self._stop(job)
        elif changes.get("stopped") is False and job.status["state"] == "Stopped":
            job.replicas.clear()
            job.status["state"] = "Queueing"
            if self.run_jobs:
                self.runner.start(job)
        return 200, job.document()

    def _stop(self, job: FakeJob) -> None:
        if self.run_jobs:
            self.runner.stop(job)
        elif not job.ended:
            job.status.update(state="Stopped", ready=0, active=0, completion_time=now_ms())

    def delete_job(self, job: FakeJob) -> Answer:
        """DELETE: gone from the alive lists; the archive still shows it as Deleted."""
        self._stop(job)
        job.status["state"] = "Deleted"
        return 200, {}

    def archive(self, job: FakeJob) -> None:
        """What happens after the job's TTL."""
        job.status["state"] = "Archived"

    # -- logs ---------------------------------------------------------------------------------------

    def range_logs(self, query: Query) -> Answer:
        """GET /logs: Loki's shape, ``[start, end)`` in ns, one stream per replica, at most ``limit`` records."""
        if ("start" in query) != ("end" in query):
            return fail(400, "InvalidRequest", "start and end go together")
        limit = int(first(query, "limit", "5000"))
        if not 0 < limit <= MAX_LOG_LIMIT:
            return fail(400, "InvalidRequest", "limit out of range")
        start, end = int(first(query, "start", "0")), int(first(query, "end", str(2**63)))
        wanted, text = first(query, "replica"), first(query, "q")
        records = [
            (at, replica.id, line)
            for replica in self._log_sources(query)
            if wanted in ("", replica.id)
            for at, line in list(replica.lines)
            if start <= at < end and text in line
        ]
        backward = first(query, "direction", "backward") == "backward"
        records.sort(key=lambda record: record[0], reverse=backward)
        streams: dict[str, list[list[str]]] = {}
        for at, replica_id, line in records[:limit]:
            streams.setdefault(replica_id, []).append([str(at), line])
        result = [{"stream": {"replica": key}, "values": values} for key, values in streams.items()]
        return 200, {"data": {"resultType": "streams", "result": result}}

    def _log_sources(self, query: Query) -> list[Any]:
        attempt = first(query, "job_history_name")
        if attempt:
            return next((j.attempt_logs[attempt] for j in self.jobs.values() if attempt in j.attempt_logs), [])
        job = self.jobs.get(first(query, "job"))
        return [] if job is None else list(job.replicas)

    # -- secrets ------------------------------------------------------------------------------------

    def list_secrets(self) -> Answer:
        """GET /usersecrets: names and owners, never values."""
        keys = ("name", "owner", "visibility")
        return 200, [{key: secret.get(key) for key in keys} | {"tags": None} for secret in self.secrets.values()]

    def create_secrets(self, body: list[dict[str, Any]]) -> Answer:
        """POST /usersecrets: an array, all or nothing."""
        if not isinstance(body, list):
            return fail(400, "InvalidRequest", "expected an array")
        if any(item["name"] in self.secrets for item in body):
            return fail(409, "ResourceConflict", "secret already exists")
        for item in body:
            self.secrets[item["name"]] = {**item, "owner": self.owner}
        return 201, {}

    def create_pull_secret(self, body: dict[str, Any]) -> Answer:
        """POST /imagepullsecrets: 201 with an empty body, 409 when the name is taken."""
        name = body["metadata"].get("name") or body["metadata"].get("id")
        if name in self.pull_secrets:
            return fail(409, "ResourceConflict", "pull image secret already exists")
        self.pull_secrets[name] = body
        return 201, None

    def list_pull_secrets(self) -> Answer:
        """GET /imagepullsecrets, without passwords."""
        shown = ("registry_server", "username")
        rows = [
            {"metadata": {"id": name, "name": name}, "spec": {key: item["spec"].get(key) for key in shown}}
            for name, item in self.pull_secrets.items()
        ]
        return 200, rows

    # -- what can be asked for ----------------------------------------------------------------------

    def list_shapes(self, query: Query) -> Answer:
        """GET /shapes, of the given node groups (none given: the shared ones), for one purpose."""
        groups = query.get("node_groups") or [""]
        purpose = first(query, "purpose")
        found = [shape for group in groups for shape in self.shapes.get(group, [])]
        return 200, [s for s in found if not purpose or purpose in s["spec"]["listable_in"]]

    def info(self) -> Answer:
        """GET /workspace."""
        zero = {"cpu": 0, "memory": 0, "accelerator_num": 0}
        counts = {f"num_{kind}": 0 for kind in ("deployments", "pods", "secrets", "image_pull_secrets")}
        return 200, {
            "build_time": "2026-01-01",
            "git_commit": "1.2.3",
            "workspace_name": "ws1",
            "workspace_tier": "enterprise",
            "workspace_state": "normal",
            "supported_shapes": {},
            "workspace_disk_usage_bytes": 0,
            "workloads": {**counts, "num_jobs": len(self.jobs)},
            "resource_quota": {"limit": zero, "used": zero},
            "features": {"enable_new_deployment_api": True},
        }


def _in_mode(job: FakeJob, mode: str) -> bool:
    archived = job.status.get("state") in ("Archived", "Deleted")
    return {"alive_only": not archived, "archive_only": archived}.get(mode, True)


def _selected(job: FakeJob, query: Query) -> bool:
    if not _in_mode(job, first(query, "job_query_mode", "alive_only")):
        return False
    text = first(query, "q")
    if text and text not in job.metadata["name"] and text not in job.id:
        return False
    states, groups = query.get("status"), set(query.get("node_groups") or [])
    if states and job.status.get("state") not in states:
        return False
    allowed = (job.spec.get("affinity") or {}).get("allowed_dedicated_node_groups") or []
    if groups and not groups & set(allowed):
        return False
    return _labels_match(job.metadata.get("labels") or {}, first(query, "query"))


def _labels_match(labels: dict[str, str], selector: str) -> bool:
    for part in filter(None, selector.split(",")):
        key, has_value, value = part.partition("=")
        if key not in labels or (has_value and labels[key] != value):
            return False
    return True


def shape(name: str, gpus: int, gpu: str = "NVIDIA-H100-80GB-HBM3", cpu: int = 24) -> dict[str, Any]:
    """A resource shape's document."""
    spec = {"name": name, "listable_in": ["pod", "deployment", "job"], "cpu": cpu, "memory_in_mb": 131072}
    if gpus:
        spec.update(accelerator_type=gpu, accelerator_num=gpus, accelerator_memory_in_mb=81559)
    return {"metadata": {"id": name, "name": name}, "spec": spec}


def default_node_groups() -> list[dict[str, Any]]:
    """A group with Lustre and a scratch disk, and one without volumes."""
    lustre = {"from": "nfs", "name": "lustre", "size_in_gb": 0, "from_path": "/lustre", "creation_mode": "none"}
    scratch = {"from": "local", "name": "scratch", "size_in_gb": 0, "from_path": "/raid", "creation_mode": "mkdir"}
    return [
        {
            "metadata": {"id": "h100-pool-abcd", "name": "h100-pool"},
            "spec": {"gpu_product": "NVIDIA-H100-80GB-HBM3", "desired_nodes": 4, "volumes": [scratch, lustre]},
            "status": {"ready_nodes": 4, "quota_enabled": True},
        },
        {
            "metadata": {"id": "l40s-pool-efgh", "name": "l40s-pool"},
            "spec": {"gpu_product": "NVIDIA-L40S", "desired_nodes": 2, "volumes": []},
            "status": {"ready_nodes": 2, "quota_enabled": False},
        },
    ]


def default_shapes() -> dict[str, list[dict[str, Any]]]:
    """Shapes by node group id; "" holds those of the shared capacity."""
    h100 = [shape("gpu.1xh100-sxm", 1), shape("gpu.8xh100-sxm", 8, cpu=192), shape("cpu.small", 0, cpu=1)]
    l40s = [shape("gpu.2xl40s", 2, "NVIDIA-L40S"), shape("gpu.4xl40s", 4, "NVIDIA-L40S")]
    return {"h100-pool-abcd": h100, "l40s-pool-efgh": l40s, "": [shape("gpu.a10", 1, "NVIDIA-A10"), *h100]}


def default_permissions() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Allowed path prefixes by (volume, node group id)."""
    group = "h100-pool-abcd"
    own = {"path_prefix": "/proj", "allowed_users": [], "subfolder_policy": "by_user", "nodegroup_id": group}
    data = {"path_prefix": "/datasets", "allowed_users": ["*"], "nodegroup_id": group}
    return {("lustre", group): [own, data]}


__all__ = ["ENDED", "Answer", "FakeWorkspace", "Query", "fail", "first", "shape"]
