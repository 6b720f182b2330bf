"""The methods that Python users call, the same on every platform; the CLI stands on the same ground."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tao_run.errors import UsageError
from tao_run.jobs.model import Job, JobState, JobStatus, LogQuery

if TYPE_CHECKING:
    from tao_run.jobs.store import Store
    from tao_run.platforms.base import Platform

Hook = Callable[[Job], None]
# names the field already uses -> ours
_REQUEST_ALIASES = {"num_nodes": "nodes", "specs": "spec", "env_vars": "env", "gpu_count": "gpus"}
_OPTION_ALIASES = {"dedicated_node_group": "node_group", "instance_id": "instance"}


class SDKMethods:
    """create_job, get_job_status, get_job_logs, ... over the contract of `Platform`.

    Jobs are recorded in the same store that the command line uses: what one starts the other can watch.
    """

    _store: Store | None

    @property
    def store(self) -> Store:
        """The record of jobs on this machine."""
        if self._store is None:
            from tao_run.jobs.store import Store

            self._store = Store()
        return self._store

    @property
    def _platform(self) -> Platform:
        return cast("Platform", self)

    def create_job(
        self,
        image: str | None = None,
        command: str | Sequence[str] | None = None,
        gpu_count: int | None = 1,
        env_vars: Mapping[str, str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | Sequence[str] | None = None,
        hooks: Mapping[str, Hook] | None = None,
        **platform_options: Any,
    ) -> Job:
        """Submit a job: record first, then launch once.

        `gpu_count` is per node. `command` is bash text or a list of exact arguments. Keyword arguments that
        are fields of a request (`num_nodes`, `name`, `results`, `secrets`, ...) go there, all others are
        options of the platform. `hooks` may hold `on_change`, `on_complete` and `on_error`, called with the
        job by `wait`. Raises TaoRunError; after `Unconfirmed` the record finds out what happened.
        """
        from tao_run.platforms.lifecycle import build_job, submit

        given = {"image": image, "command": command, "gpus": gpu_count, "env": env_vars, "inputs": inputs}
        request = self._request({**given, "outputs": outputs}, platform_options)
        job = submit(self._platform, self.store, build_job(self._platform, request))
        if hooks:
            self._hooks[job.id] = dict(hooks)
        return job

    def _request(self, given: dict[str, Any], options: Mapping[str, Any]) -> Any:
        from tao_run.jobs.request import JobRequest, parse_request

        data = {key: value for key, value in given.items() if value is not None}
        block: dict[str, Any] = {}
        for key, value in options.items():
            field = _REQUEST_ALIASES.get(key, key)
            if field in JobRequest.model_fields and field != "options":
                data[field] = value
            elif value is not None:
                block[_OPTION_ALIASES.get(key, key)] = value
        if isinstance(data.get("command"), tuple):
            data["command"] = list(data["command"])
        data["platform"] = self._platform.name
        data["options"] = {self._platform.name: block} if block else {}
        return parse_request(data, "create_job")

    @cached_property
    def _hooks(self) -> dict[str, dict[str, Hook]]:
        return {}

    def get_job(self, job_id: str) -> Job:
        """A recorded job by id, prefix or name. Raises NoSuchJob."""
        return self.store.resolve(job_id)

    def get_job_status(self, job_id: str) -> JobStatus:
        """Ask the backend and record what was seen. Raises if it does not answer: that is no state."""
        from tao_run.platforms.lifecycle import observe

        return observe(self._platform, self.store, [self.get_job(job_id)])[0].status

    def wait(self, job_id: str, interval: float = 300.0) -> JobStatus:
        """Poll every `interval` seconds until the job has ended, calling its hooks; returns the last status."""
        from tao_run.platforms.lifecycle import observe

        job = self.get_job(job_id)
        while True:
            before, job = job.status.state, observe(self._platform, self.store, [job])[0]
            if job.status.state is not before:
                self._call_hooks(job)
            if self._settled(job):
                return job.status
            self._platform.clock.sleep(interval)

    def _settled(self, job: Job) -> bool:
        """Whether the job has ended; what it held is given back then."""
        if job.status.state.terminal:
            for note in self._platform.settle(job):
                self._platform.note(note)
        return job.status.state.terminal

    def _call_hooks(self, job: Job) -> None:
        ended = {JobState.COMPLETE: "on_complete", JobState.ERROR: "on_error"}
        hooks = self._hooks.get(job.id, {})
        for name in ("on_change", ended.get(job.status.state, "")):
            if name in hooks:
                hooks[name](job)

    def get_job_logs(self, job_id: str, tail: int | None = None) -> str:
        """The log as text, the last `tail` lines if given."""
        return "\n".join(line.text for line in self.iter_job_logs(job_id, LogQuery(tail=tail)))

    def iter_job_logs(self, job_id: str, query: LogQuery | None = None) -> Iterator[Any]:
        """The log as a stream of LogLine: for logs larger than memory, and to follow."""
        return self._platform.logs(self.get_job(job_id), query or LogQuery())

    def cancel_job(self, job_id: str) -> bool:
        """Stop the job. True if it was seen to have ended."""
        from tao_run.platforms.lifecycle import cancel

        job = cancel(self._platform, self.store, self.get_job(job_id))
        return self._settled(job)

    def get_failure_analysis(self, job_id: str) -> dict[str, Any] | None:
        """Why a job failed: `err_class`, `suggestion`, `job_failure_by_node_event`, `log_streams`.

        None for a job that has not failed.
        """
        from tao_run.analysis import analyze

        job = self.get_job(job_id)
        if job.status.state is JobState.COMPLETE:
            return None
        analysis = analyze(self._platform.evidence(job))
        return None if analysis is None else analysis.to_dict()

    def get_job_results_dir(self, job_id: str) -> str:
        """Where the results are (a directory or a URI); empty if nowhere durable."""
        return self.get_job(job_id).results_dir

    def check_path(self, remote_path: str) -> bool:
        """Whether a path exists: an s3:// URI, or a path as jobs of this platform see it.

        Raises CredentialError if access is refused: refused is not absent. Raises UsageError if the platform
        cannot tell, which this machine's own files never decide for another one.
        """
        from tao_run.storage import check_path, parse_location

        location = parse_location(remote_path)
        if not location.is_file:
            return check_path(remote_path, self._platform.credentials)
        proof = self._platform.prove_path(location.path)
        if proof is None or proof.status == "skipped":
            raise UsageError(f"{self._platform.name} cannot tell whether {remote_path} exists", "use s3://")
        return proof.status == "ok"

    def list_path(self, remote_path: str) -> list[str]:
        """What is under an s3:// URI, or under a path that this machine shares with jobs. Raises as check_path."""
        from tao_run.storage import list_path, parse_location

        if parse_location(remote_path).is_file and not self._platform.sees_this_machine():
            raise UsageError(f"{remote_path} is not on this machine: it cannot be listed from here", "use s3://")
        return list_path(remote_path, self._platform.credentials)
