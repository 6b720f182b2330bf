"""Jobs of the fake workspace: documents, replicas, log lines, and the processes that really run."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import string
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENDED = {"Completed", "Failed", "Stopped", "Archived", "Deleted"}
_ALPHABET = string.ascii_lowercase + string.digits


def suffix(length: int) -> str:
    """Lower-case letters and digits, as the service appends to names."""
    return "".join(random.choices(_ALPHABET, k=length))


def now_ms() -> int:
    """Milliseconds since the epoch, the unit of the service's documents."""
    return time.time_ns() // 1_000_000


@dataclass
class FakeReplica:
    """One worker: its document, its log, its process."""

    id: str
    document: dict[str, Any]
    lines: list[tuple[int, str]] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    exit_code: int | None = None

    def log(self, text: str, at_ns: int | None = None) -> None:
        """Append a line, as the log collector would, never two at one instant."""
        at = time.time_ns() if at_ns is None else at_ns
        if at_ns is None and self.lines and at <= self.lines[-1][0]:
            at = self.lines[-1][0] + 1
        self.lines.append((at, text))


@dataclass
class FakeJob:
    """One job of the workspace. ``status`` and ``spec`` are the documents clients see; tests may edit them."""

    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: dict[str, Any]
    replicas: list[FakeReplica] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    failure_analysis: dict[str, Any] | None = None
    attempt_logs: dict[str, list[FakeReplica]] = field(default_factory=dict)
    finished: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def id(self) -> str:
        """The only handle: name, hyphen, four characters."""
        return str(self.metadata["id"])

    @property
    def ended(self) -> bool:
        """Whether nothing more will be logged."""
        return self.status.get("state") in ENDED

    def move(self, state: str, **changes: Any) -> None:
        """A step of the state machine; a deleted job does not come back."""
        if self.status.get("state") != "Deleted":
            self.status.update(state=state)
        self.status.update(changes)

    def document(self) -> dict[str, Any]:
        """The job as the API shows it."""
        return {"metadata": self.metadata, "spec": self.spec, "status": self.status}

    def add_replica(self, index: int, **status: Any) -> FakeReplica:
        """A worker with the given status fields (``node``, ``readiness_issue``, ...)."""
        replica_id = f"{self.id}-{index}-{suffix(5)}"
        document = {"metadata": {"id": replica_id, "name": replica_id}, "id": replica_id, "status": status}
        replica = FakeReplica(replica_id, document)
        self.replicas.append(replica)
        return replica


def new_job(body: dict[str, Any], owner: str) -> FakeJob:
    """What POST /jobs makes of its body: an id with a suffix and a queued status."""
    metadata = dict(body["metadata"])
    name = str(metadata.get("id") or metadata.get("name"))
    created = now_ms()
    metadata.update(id=f"{name}-{suffix(4)}", name=name, created_at=created, last_modified_at=created)
    metadata.update(version=1, created_by=owner, owner=owner)
    status = {"job_name": metadata["id"], "state": "Queueing", "creation_time": created, "job_history": []}
    status.update(ready=0, active=0, failed=0, succeeded=0)
    return FakeJob(metadata, dict(body.get("spec") or {}), status)


class JobRunner:
    """Runs the workers of a job as local bash processes, and moves the job through its states.

    ``secrets`` resolves secret references; ``volumes`` maps a volume's name to a local directory that is
    bind-mounted at the mount path in a mount namespace of the worker's own.
    """

    def __init__(self, secrets: Callable[[str], str | None], volumes: dict[str, Path]) -> None:
        self.secrets = secrets
        self.volumes = volumes
        self.queue_seconds = 0.0
        self.start_seconds = 0.0
        self.node = "node-ip-10-0-0-24"

    def start(self, job: FakeJob) -> None:
        """Begin in the background."""
        job.finished.clear()
        job.stopping.clear()
        threading.Thread(target=self._run, args=(job,), daemon=True).start()

    def stop(self, job: FakeJob) -> None:
        """What ``stopped: true`` does: Stopping, the workers are killed, Stopped."""
        if job.ended:
            return
        job.move("Stopping")
        job.stopping.set()
        for replica in job.replicas:
            _kill(replica.process)

    def _run(self, job: FakeJob) -> None:
        if job.stopping.wait(self.queue_seconds):
            return self._finish(job)
        job.move("Starting")
        workers = int(job.spec.get("completions") or 1)
        group = _node_group(job)
        for index in range(workers):
            node = {"name": self.node, "id": self.node, "node_group_id": group}
            job.add_replica(index, node=node, cpu=2, memory_in_mb=8192)
        if job.stopping.wait(self.start_seconds):
            return self._finish(job)
        threads = [threading.Thread(target=self._worker, args=(job, i), daemon=True) for i in range(workers)]
        job.move("Running", active=workers, ready=workers)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._finish(job)

    def _finish(self, job: FakeJob) -> None:
        codes = [replica.exit_code for replica in job.replicas]
        succeeded = codes.count(0)
        over = {"ready": 0, "active": 0, "completion_time": now_ms()}
        if job.stopping.is_set():
            job.move("Stopped", **over)
        else:
            state = "Completed" if succeeded == len(codes) else "Failed"
            job.move(state, succeeded=succeeded, failed=len(codes) - succeeded, **over)
        job.finished.set()

    def _worker(self, job: FakeJob, index: int) -> None:
        replica = job.replicas[index]
        env = self._environment(job, index, replica)
        if env is None:
            replica.document["status"]["readiness_issue"] = {"reason": "ConfigError", "message": "Secret not found"}
            replica.exit_code = 128
            return
        home = Path(tempfile.mkdtemp(prefix="fake-lepton-"))
        command = self._with_mounts(job, list(job.spec["container"]["command"]))
        env["HOME"] = str(home)
        try:
            replica.exit_code = _follow(replica, command, env, home, job.stopping)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _environment(self, job: FakeJob, index: int, replica: FakeReplica) -> dict[str, str] | None:
        env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
        env.update(_worker_variables(job, index, replica))
        for item in job.spec.get("envs") or []:
            value = item.get("value")
            if item.get("value_from"):
                value = self.secrets(item["value_from"]["secret_name_ref"])
                if value is None:
                    return None
            env[item["name"]] = value or ""
        return env

    def _with_mounts(self, job: FakeJob, command: list[str]) -> list[str]:
        script = []
        for mount in job.spec.get("mounts") or []:
            volume = self.volumes.get(str(mount["from"]).partition(":")[2])
            if volume is None:
                continue
            source = volume / str(mount.get("path") or "/").lstrip("/")
            source.mkdir(parents=True, exist_ok=True)
            target = mount["mount_path"]
            script.append(f"mkdir -p {target} && mount --bind {source} {target} || exit 125")
        if not script:
            return command
        inner = "\n".join(["mount -t tmpfs none /mnt || exit 125", *script, 'exec "$@"'])
        return ["unshare", "-m", "bash", "-c", inner, "bash", *command]


def _node_group(job: FakeJob) -> str:
    groups = (job.spec.get("affinity") or {}).get("allowed_dedicated_node_groups") or ["shared"]
    return str(groups[0])


def _worker_variables(job: FakeJob, index: int, replica: FakeReplica) -> dict[str, str]:
    workers = str(job.spec.get("completions") or 1)
    return {
        "LEPTON_JOB_NAME": job.id,
        "LEPTON_JOB_TOTAL_WORKERS": workers,
        "LEPTON_JOB_WORKER_INDEX": str(index),
        "LEPTON_JOB_WORKER_PREFIX": "worker",
        "LEPTON_JOB_WORKER_HOSTNAME_PREFIX": "worker",
        "LEPTON_SUBDOMAIN": f"{job.id}-job-svc",
        "LEPTON_JOB_SERVICE_PREFIX": job.id,
        "LEPTON_WORKER_ID": replica.id,
        "LEPTON_JOB_FAILURE_COUNT": "0",
    }


def _follow(
    replica: FakeReplica, command: list[str], env: dict[str, str], home: Path, stopping: threading.Event
) -> int:
    with subprocess.Popen(
        command,
        env=env,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        replica.process = process
        if stopping.is_set():
            _kill(process)
        threading.Thread(target=_end_container, args=(process,), daemon=True).start()
        assert process.stdout is not None
        for raw in process.stdout:
            replica.log(raw.decode("utf-8", "replace").rstrip("\n"))
    return process.returncode


def _end_container(process: subprocess.Popen[bytes]) -> None:
    """When its first process ends, a container ends: what that has left behind is killed."""
    with contextlib.suppress(ChildProcessError):  # it was waited for already
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None and process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
