"""The local adapter: prepares a plan, starts a supervisor, and reads what the supervisor wrote."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_run.credentials import is_secret_name
from tao_run.errors import BackendRejected, BackendUnreachable, UsageError
from tao_run.jobs.model import (
    Check,
    Evidence,
    Job,
    JobStatus,
    LogLine,
    LogQuery,
    Replica,
    ResourceTable,
)
from tao_run.platforms.base import Launch, Platform
from tao_run.platforms.local import logs as local_logs
from tao_run.platforms.local.gpus import Bookings, find_gpus
from tao_run.platforms.local.jobdir import JobDir, read_text
from tao_run.platforms.local.processes import end_tree, signal_process
from tao_run.platforms.local.state import replicas_of, status_of
from tao_run.userpaths import own_path

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tao_run.jobs.request import JobRequest

_POLL_SECONDS = 0.1
_CANCEL_MARGIN = 10.0
_EVIDENCE_LINES = 2000


class LocalSDK(Platform):
    """Runs jobs as processes of this machine. Ranks of a multi-node job are processes side by side."""

    name = "local"
    launch_grace = 15.0

    def __init__(self, *arguments: Any, host: str | None = None, **parts: Any) -> None:
        super().__init__(*arguments, **parts)
        self.host = host or socket.gethostname()

    @classmethod
    def options_model(cls) -> type[BaseModel]:
        from tao_run.platforms.local.options import Options

        return Options

    # -- before launch -------------------------------------------------------------------------------

    def complete(self, request: JobRequest) -> JobRequest:
        options = request.for_platform()
        if "cwd" not in options:
            options["cwd"] = _working_directory()
        return request.model_copy(update={"options": {**request.options, self.name: options}})

    def account(self, request: JobRequest) -> str:
        return self.host

    def results_dir(self, request: JobRequest, job_id: str) -> str:
        return f"{self._results_root(request).rstrip('/')}/{job_id}"

    def _results_root(self, request: JobRequest) -> str:
        if request.results:
            return request.results if "://" in request.results else str(own_path(request.results))
        bucket = self.credentials.setting("S3_BUCKET_NAME")
        return f"s3://{bucket}/results" if bucket else str(self.store.directory / "results")

    def _work_root(self, job: Job) -> str:
        """Where results are written first: their own place, or a directory of ours on their way to a bucket."""
        root, _, _ = job.results_dir.rpartition("/")
        return root if "://" not in root else str(self.store.directory / "results")

    def prepare(self, job: Job) -> Launch:
        from tao_run.entrypoint import entry_for
        from tao_run.jobs.request import parse_model
        from tao_run.platforms.local.options import Options
        from tao_run.platforms.local.ranks import rank_environment

        request = job.request
        options = parse_model(Options, request.for_platform(), "options of platform local")
        entry = entry_for(job, results_root=self._work_root(job), credentials=self.credentials)
        pool, per_node = self._gpu_pool(options.gpu_ids, request.gpus)
        directory = self._directory(job)
        plan: dict[str, Any] = {
            "directory": str(directory.path),
            "script": entry.script,
            "cwd": options.cwd,
            "nodes": request.nodes,
            "gpus_per_node": per_node,
            "gpu_pool": pool,
            "gpu_count": min(per_node * request.nodes, len(pool)),
            "env": {**entry.env, **({"TAO_RUN_PAYLOAD": str(directory.payload)} if entry.payload else {})},
            "rank_env": rank_environment(job.id, request.nodes, per_node),
            "max_time": request.max_time,
            "grace": options.grace,
        }
        return Launch(job, plan, entry.secrets, entry.payload, self._notes(request, per_node, pool))

    def _gpu_pool(self, wanted: list[str] | None, asked: int | None) -> tuple[list[str], int]:
        pool = [gpu.index for gpu in find_gpus(os.environ)]
        if wanted is not None:
            unknown = [gpu for gpu in wanted if gpu not in pool]
            if unknown:
                raise UsageError(f"no GPU {', '.join(unknown)} here; there are: {', '.join(pool) or 'none'}")
            pool, asked = wanted, len(wanted) if asked is None else asked
        count = min(1, len(pool)) if asked is None else asked
        if count > len(pool):
            raise UsageError(
                f"{count} GPUs asked for, this machine offers {len(pool)}", "lower --gpus, or choose another --platform"
            )
        return pool, count

    def _notes(self, request: JobRequest, per_node: int, pool: list[str]) -> tuple[str, ...]:
        notes = []
        if request.image:
            notes.append(f"image {request.image} is recorded; platform local runs on this machine without it")
        if per_node * request.nodes > len(pool):
            notes.append(f"{request.nodes} nodes are simulated as {request.nodes} ranks that share {len(pool)} GPUs")
        return tuple(notes)

    # -- launch ----------------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> str:
        directory = self._directory(launch.job)
        directory.make()
        if launch.payload is not None:
            directory.payload.write_bytes(launch.payload)
        secrets = {name: self.credentials.value(source) for name, source in launch.secrets.items()}
        inherited = {name: value for name, value in os.environ.items() if not _is_private(name)}
        plan = {**launch.native, "env": {**inherited, **launch.native["env"]}, "secrets": secrets}
        supervisor = self._start_supervisor(directory)
        self._hand_over(supervisor, directory, json.dumps(plan).encode())
        return launch.job.id

    def _start_supervisor(self, directory: JobDir) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parents[3])
        with (directory.path / "supervisor.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tao_run.platforms.local.supervisor"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": root},
                start_new_session=True,
            )

    def _hand_over(self, supervisor: subprocess.Popen[bytes], directory: JobDir, plan: bytes) -> None:
        """Send the plan over a pipe (secret values touch no file) and wait until the job is claimed."""
        assert supervisor.stdin is not None and supervisor.stdout is not None
        try:
            supervisor.stdin.write(plan)
            supervisor.stdin.close()
            answer = supervisor.stdout.read(8)
        except BrokenPipeError:
            answer = b""
        supervisor.stdout.close()
        if answer != b"claimed\n":
            detail = read_text(directory.path / "supervisor.log").strip().rpartition("\n")[2]
            raise BackendRejected(f"the job's supervisor ended at once: {detail or 'no message'}")

    def find(self, job: Job) -> str | None:
        self._require_this_host(job)
        return job.id if self._directory(job).claimed() else None

    # -- while it lives --------------------------------------------------------------------------------

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        for job in jobs:
            self._require_this_host(job)
        return {job.id: status_of(job, self._directory(job)) for job in jobs}

    def logs(self, job: Job, query: LogQuery) -> Iterator[LogLine]:
        self._require_this_host(job)
        directory, ranks = self._directory(job), self._ranks(job, query.replica)
        if not directory.kept():
            return iter([LogLine("the log was deleted together with the job", kind="note")])
        if not query.follow:
            return local_logs.read(directory, ranks, query)
        return local_logs.follow(directory, ranks, query, self.clock, lambda: status_of(job, directory).state.terminal)

    def _ranks(self, job: Job, wanted: str | None) -> list[int]:
        if wanted is None:
            return list(range(job.nodes))
        digits = wanted.removeprefix("rank-")
        if not digits.isdecimal() or int(digits) >= job.nodes:
            raise UsageError(f"no replica {wanted!r}: {job.name} has ranks 0 to {job.nodes - 1}")
        return [int(digits)]

    def replicas(self, job: Job) -> list[Replica]:
        self._require_this_host(job)
        return replicas_of(job, self._directory(job), job.account)

    def cancel(self, job: Job, delete: bool = False) -> JobStatus:
        self._require_this_host(job)
        directory = self._directory(job)
        if directory.kept() and not directory.exit.exists():
            self._end(job, directory)
        status = status_of(job, directory)
        if delete and status.state.terminal:
            shutil.rmtree(directory.path, ignore_errors=True)
        return status

    def _end(self, job: Job, directory: JobDir) -> None:
        directory.cancel.touch()
        supervisor = directory.supervisor()
        if supervisor is not None:
            signal_process(supervisor, signal.SIGTERM)
        else:
            for pid in directory.living_ranks():
                end_tree(pid)
        grace = float(job.options.get("grace", 10.0))
        deadline = self.clock.monotonic() + grace + _CANCEL_MARGIN
        while directory.alive() and self.clock.monotonic() < deadline:
            self.clock.sleep(_POLL_SECONDS)

    def evidence(self, job: Job) -> Evidence:
        directory = self._directory(job)
        lines = local_logs.read(directory, list(range(job.nodes)), LogQuery(tail=_EVIDENCE_LINES))
        return Evidence(
            status=job.status,
            replicas=tuple(self.replicas(job)),
            log_tail=tuple(lines),
            facts={"supervisor_log": read_text(directory.path / "supervisor.log")[-4000:]},
        )

    # -- before anything is submitted --------------------------------------------------------------------

    def check_access(self, request: JobRequest | None = None) -> list[Check]:
        return [self._check_bash(), self._check_gpus(request)]

    def sees_this_machine(self, request: JobRequest | None = None) -> bool:
        return True

    def _check_bash(self) -> Check:
        if Path("/bin/bash").exists():
            return Check("local.bash", "ok", "/bin/bash is there")
        return Check("local.bash", "failed", "/bin/bash is not there", "install bash")

    def _check_gpus(self, request: JobRequest | None) -> Check:
        offered = len(find_gpus(os.environ))
        asked = (request.gpus or 0) if request else 0
        if asked > offered:
            detail = f"{asked} GPUs asked for, this machine offers {offered}"
            return Check("local.gpus", "failed", detail, "lower --gpus, or choose another --platform")
        return Check("local.gpus", "ok", f"this machine offers {offered} GPUs")

    def resources(self, account: str | None = None) -> list[ResourceTable]:
        held = Bookings(self._root).held()
        rows = tuple(
            (gpu.index, gpu.name, str(gpu.memory) if gpu.memory >= 0 else "", Path(held.get(gpu.index, "")).name)
            for gpu in find_gpus(os.environ)
        )
        return [ResourceTable("GPUs of this machine", ("id", "name", "memory_mb", "job"), rows)]

    # -- where things are --------------------------------------------------------------------------------

    @property
    def _root(self) -> Path:
        return self.store.directory / "local"

    def _directory(self, job: Job) -> JobDir:
        return JobDir(self._root / job.id)

    def _require_this_host(self, job: Job) -> None:
        if job.account != self.host:
            raise BackendUnreachable(f"{job.name} runs on {job.account}, this is {self.host}", f"ask on {job.account}")


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        hint = "change to one that exists, or name one with -o cwd=DIRECTORY"
        raise UsageError("the current directory does not exist any more", hint) from None


def _is_private(name: str) -> bool:
    """Variables of the caller that a job does not inherit: credentials reach it only when asked for by name."""
    return is_secret_name(name) or name.startswith("TAO_RUN_")
