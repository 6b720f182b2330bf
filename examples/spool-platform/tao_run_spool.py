"""Platform spool: jobs are scripts in a directory, a worker (worker.sh) runs them one after the other.

It shows all that a platform for tao-run has to do, on a backend that fits on one page.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, Field

from tao_run.entrypoint import entry_for
from tao_run.errors import BackendUnreachable, UsageError
from tao_run.jobs.model import Check, Evidence, Job, JobState, JobStatus, LogLine, LogQuery, Replica
from tao_run.jobs.request import JobRequest, Strict, parse_model
from tao_run.platforms.base import Launch, Platform
from tao_run.platforms.streams import last_lines


class Options(Strict):
    """Options of the spool platform."""

    directory: str | None = Field(None, description="the spool directory; default: the setting TAO_SPOOL_DIR")


class SpoolSDK(Platform):
    """Puts jobs into a spool directory and reads there how they went."""

    name = "spool"
    multi_node = False

    @classmethod
    def options_model(cls) -> type[BaseModel]:
        return Options

    # -- before launch: nothing here touches the backend ---------------------------------------------------

    def account(self, request: JobRequest) -> str:
        options: Options = parse_model(Options, request.options.get(self.name, {}), "options of platform spool")
        directory = options.directory or self.credentials.setting("TAO_SPOOL_DIR")
        if not directory:
            raise UsageError("platform spool needs a directory", "-o directory=DIR, or set TAO_SPOOL_DIR")
        return str(Path(directory).absolute())

    def results_dir(self, request: JobRequest, job_id: str) -> str:
        return f"{request.results.rstrip('/')}/{job_id}" if request.results else ""

    def prepare(self, job: Job) -> Launch:
        if job.nodes > 1:
            raise UsageError("platform spool has one node: nodes must be 1")
        if job.request.max_time:
            raise UsageError("platform spool has no time limits: leave max_time out")
        entry = entry_for(job, results_root=job.results_dir.rpartition("/")[0], credentials=self.credentials)
        env = {"NNODES": "1", "NODE_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", **entry.env}
        native = {"queue": f"{job.account}/queue/{job.name}", "script": entry.script, "env": env}
        return Launch(job, native, entry.secrets, entry.payload)

    # -- the one call that creates ---------------------------------------------------------------------------

    def launch(self, launch: Launch) -> str:
        spool, directory = self._spool(launch.job), self._directory(launch.job)
        directory.mkdir(mode=0o700, parents=True)
        env = dict(launch.native["env"])
        if launch.payload is not None:
            (directory / "payload").write_bytes(launch.payload)
            env["TAO_RUN_PAYLOAD"] = str(directory / "payload")
        env |= {name: self.credentials.value(source) for name, source in launch.secrets.items()}
        (directory / "env").touch(0o600)  # secrets travel in a file that the worker reads and removes
        (directory / "env").write_text("".join(f"export {key}={shlex.quote(value)}\n" for key, value in env.items()))
        (directory / "script").write_text(launch.native["script"])
        (spool / "queue" / launch.job.name).touch()  # from this moment on it exists; `find` looks for it
        return launch.job.name

    def find(self, job: Job) -> str | None:
        spool = self._spool(job)
        known = ("queue", "running")
        started = (self._directory(job) / "log").exists()
        return job.name if started or any((spool / place / job.name).exists() for place in known) else None

    # -- while it lives ----------------------------------------------------------------------------------------

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        return {job.id: self._status(job) for job in jobs}

    def _status(self, job: Job) -> JobStatus:
        spool, directory = self._spool(job), self._directory(job)
        if (directory / "exit").exists():
            code = int((directory / "exit").read_text())
            if (directory / "canceled").exists():
                return JobStatus(JobState.CANCELED, "Canceled", native_state="exit", exit_code=code)
            state = JobState.ERROR if code else JobState.COMPLETE
            return JobStatus(state, "ExitCode" if code else "", native_state="exit", exit_code=code)
        if (spool / "queue" / job.name).exists():
            return JobStatus(JobState.PENDING, "Queued", "waits for the worker", "queue")
        if (spool / "running" / job.name).exists():
            return JobStatus(JobState.RUNNING, native_state="running")
        if (directory / "canceled").exists():
            return JobStatus(JobState.CANCELED, "Canceled", "taken out of the queue", "none")
        return JobStatus(JobState.ERROR, "Gone", "the job was removed from the spool directory", "none")

    def logs(self, job: Job, query: LogQuery) -> Iterator[LogLine]:
        if query.replica not in (None, "0", job.name):
            raise UsageError(f"{job.name} has one replica, 0")
        if not query.follow:
            yield from last_lines(self._lines(job, follow=False), query.tail)
            return
        before = sum(1 for _ in self._lines(job, follow=False))
        skip = 0 if query.tail is None else max(0, before - query.tail)
        yield from (line for number, line in enumerate(self._lines(job, follow=True)) if number >= skip)

    def _lines(self, job: Job, follow: bool) -> Iterator[LogLine]:
        path, position, rest = self._directory(job) / "log", 0, b""
        while True:
            ended = not follow or self._status(job).state.terminal  # looked at first: then the rest is all there is
            if path.exists():
                with path.open("rb") as file:
                    file.seek(position)
                    *lines, rest = (rest + file.read()).split(b"\n")
                    position = file.tell()
                for line in lines + ([rest] if ended and rest else []):
                    yield LogLine(line.decode("utf-8", "replace"), rank=0, replica=job.name)
            if ended:
                return
            self.clock.sleep(0.2)

    def replicas(self, job: Job) -> list[Replica]:
        status = self._status(job)
        running = status.state is JobState.RUNNING
        return [Replica(0, job.name, phase=status.state.value, ready=running, exit_code=status.exit_code)]

    def cancel(self, job: Job, delete: bool = False) -> JobStatus:
        directory = self._directory(job)
        if not self._status(job).state.terminal:
            (directory / "canceled").touch()
            (self._spool(job) / "queue" / job.name).unlink(missing_ok=True)
        for _ in range(50):  # believe what is seen, not what was asked for
            if self._status(job).state.terminal:
                break
            self._kill(job)
            self.clock.sleep(0.1)
        return self._status(job)

    def _kill(self, job: Job) -> None:
        pid = self._directory(job) / "pid"
        if (self._spool(job) / "running" / job.name).exists() and pid.exists():
            try:
                os.killpg(int(pid.read_text()), signal.SIGTERM)
            except ProcessLookupError:
                pass  # it has just ended

    def evidence(self, job: Job) -> Evidence:
        tail = tuple(self.logs(job, LogQuery(tail=500)))
        return Evidence(self._status(job), tuple(self.replicas(job)), log_tail=tail)

    def check_access(self, request: JobRequest | None = None) -> list[Check]:
        if request is None:
            return [Check("spool.directory", "skipped", "no request, no directory")]
        try:
            spool = self._reachable(Path(self.account(request)))
        except BackendUnreachable as error:
            return [Check("spool.directory", "failed", error.message, error.hint)]
        return [Check("spool.directory", "ok", f"{spool} has a worker")]

    def sees_this_machine(self, request: JobRequest | None = None) -> bool:
        return True  # the worker runs here

    # -- the backend ---------------------------------------------------------------------------------------------

    def _spool(self, job: Job) -> Path:
        return self._reachable(Path(job.account))

    def _directory(self, job: Job) -> Path:
        return Path(job.account) / "jobs" / job.name

    def _reachable(self, spool: Path) -> Path:
        """The spool directory. No worker means no answer: that is an error, never a state."""
        if not (spool / "alive").exists():
            raise BackendUnreachable(f"no worker is alive in {spool}", f"start one: worker.sh {spool}")
        return spool
