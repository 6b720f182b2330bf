"""The docker adapter: a job is one container, created through the API and kept until its record is deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tao_run.errors import NoSuchJob, NotFound, UsageError
from tao_run.jobs.model import (
    Check,
    Evidence,
    Job,
    JobState,
    JobStatus,
    LogLine,
    LogQuery,
    Replica,
    ResourceTable,
)
from tao_run.platforms.base import Launch, Platform
from tao_run.platforms.docker import access, ending, observe
from tao_run.platforms.docker import launch as starting
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.create import LABEL_ID, Plan, container_body
from tao_run.platforms.docker.endpoint import SETTINGS
from tao_run.platforms.docker.gpus import gpu_request
from tao_run.platforms.docker.images import ImageReference
from tao_run.platforms.docker.logs import ContainerLog
from tao_run.platforms.docker.pull import login
from tao_run.platforms.docker.request import (
    RESULTS,
    absolute_mount,
    endpoint_of,
    mounts_of,
    parse_options,
    results_mount,
    results_root,
    shared_mount,
    user_of,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tao_run.jobs.request import JobRequest


class DockerSDK(Platform):
    """Runs jobs as containers of a Docker engine (or Podman's API) here, over TCP or over SSH."""

    name = "docker"
    name_limit = 63
    multi_node = False

    @classmethod
    def options_model(cls) -> type[BaseModel]:
        from tao_run.platforms.docker.options import Options

        return Options

    def daemon(self, account: str) -> Daemon:
        """The client for a daemon, one for each, connected when first used."""
        if account not in self._daemons:
            self._daemons[account] = Daemon(account, self.clock, self._settings)
        return self._daemons[account]

    @cached_property
    def _daemons(self) -> dict[str, Daemon]:
        return {}

    @property
    def _settings(self) -> dict[str, str]:
        """What Docker's own client reads from the environment, here also from the credentials file."""
        found = {name: self.credentials.setting(name) for name in SETTINGS}
        return {name: value for name, value in found.items() if value}

    def _endpoint(self, request: JobRequest | None) -> str:
        return endpoint_of(request, self._settings)

    # -- before launch -------------------------------------------------------------------------------

    def complete(self, request: JobRequest) -> JobRequest:
        options = parse_options(request)
        block = {**request.options.get(self.name, {}), "host": self._endpoint(request)}
        local = self.daemon(block["host"]).is_local
        if options.mounts:
            block["mounts"] = [absolute_mount(text, local) for text in options.mounts]
        for option, variable in (("network", "DOCKER_NETWORK"), ("pull_policy", "DOCKER_PULL_POLICY")):
            if block.get(option) is None and self.credentials.setting(variable):
                block[option] = self.credentials.setting(variable)
        return request.model_copy(update={"options": {**request.options, self.name: block}})

    def account(self, request: JobRequest) -> str:
        return self._endpoint(request)

    def results_dir(self, request: JobRequest, job_id: str) -> str:
        local = self.daemon(self._endpoint(request)).is_local
        root = results_root(request, self.credentials.setting("S3_BUCKET_NAME"), local)
        return f"{root}/{job_id}" if root else ""

    def prepare(self, job: Job) -> Launch:
        plan, secrets, payload = self._plan(job)
        count = plan.gpus.count
        notes = [f"{count} free GPU{'s' * (count > 1)} will be chosen when the container is created"] if count else []
        native = {"endpoint": job.account, "name": job.name, "container": container_body(plan)}
        if secrets:
            native["secrets"] = {name: f"credential {source}" for name, source in secrets.items()}
        return Launch(job, native, secrets, payload, tuple(notes), extra=plan)

    def _plan(self, job: Job) -> tuple[Plan, dict[str, str], bytes | None]:
        from tao_run.entrypoint import entry_for

        request, options = job.request, parse_options(job.request)
        if request.nodes > 1:
            raise UsageError(
                f"docker runs a job on one host: {request.nodes} nodes cannot be had",
                "use kubernetes, slurm or lepton, or one node with more --gpus",
            )
        if not request.image:
            raise UsageError("docker needs an image", "give --image, or --model and --action")
        local = self.daemon(job.account).is_local
        mounts = mounts_of(request, options, local)
        root = job.results_dir.rpartition("/")[0]
        results = results_mount(root, mounts)
        entry = entry_for(
            job,
            mount=shared_mount(request, local),
            results_root=RESULTS if results else root,
            credentials=self.credentials,
        )
        gpus = gpu_request(request.gpus, options.gpus, options.share_gpus)
        writes = results is not None or any(not mount.read_only and not mount.is_volume for mount in mounts)
        plan = Plan(
            job=job,
            options=options,
            image=ImageReference.parse(request.image),
            script=entry.script,
            env={"NUM_GPU_PER_NODE": str(gpus.count or len(gpus.ids)), **entry.env},
            has_secrets=bool(entry.secrets),
            has_payload=entry.payload is not None,
            mounts=mounts,
            binds=[results] if results else [],
            gpus=gpus,
            user=user_of(options, local, writes),
            network=options.network,
        )
        return plan, dict(entry.secrets), entry.payload

    # -- launch ----------------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> str:
        plan: Plan = launch.extra
        secrets = {name: self.credentials.value(source) for name, source in launch.secrets.items()}
        auth = login(plan.image, plan.options, self.credentials)
        return starting.start(self.daemon(launch.job.account), plan, secrets, launch.payload, auth, self.note)

    def find(self, job: Job) -> str | None:
        found = starting.list_containers(self.daemon(job.account), f"{LABEL_ID}={job.id}")
        return str(found[0]["Id"]) if found else None

    # -- while it lives --------------------------------------------------------------------------------

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        return observe.poll(self.daemon(jobs[0].account), jobs, self._launcher_died) if jobs else {}

    def _launcher_died(self, job: Job) -> bool:
        from tao_run.platforms.lifecycle import launcher_died

        return launcher_died(self.store.launcher(job.id))

    def settle(self, job: Job) -> list[str]:
        """A container that was never started holds devices and the file with secrets."""
        if job.backend_id and job.status.reason == observe.NEVER_LAUNCHED:
            starting.remove_if_unstarted(self.daemon(job.account), job.backend_id)
        return []

    def logs(self, job: Job, query: LogQuery) -> Iterator[LogLine]:
        if query.replica not in (None, "0", "rank-0", job.name):
            raise UsageError(f"no replica {query.replica!r}: {job.name} has one, rank 0")
        container = job.backend_id or self.find(job)
        if container is None:
            raise NoSuchJob(f"{job.name} has no container on {job.account} yet", f"`tao-run status {job.id}` finds out")
        log = ContainerLog(self.daemon(job.account), container, job.name)
        return self._told(job, log.follow(query) if query.follow else log.read(query))

    def _told(self, job: Job, lines: Iterator[LogLine]) -> Iterator[LogLine]:
        try:
            yield from lines
        except NotFound:
            raise NoSuchJob(
                f"the container of {job.name} was removed, and its log with it", f"`tao-run results {job.id}`"
            ) from None

    def replicas(self, job: Job) -> list[Replica]:
        daemon = self.daemon(job.account)
        status = self.poll([job])[job.id]
        return [
            Replica(
                rank=0,
                name=job.name,
                node=str(daemon.info.get("Name") or ""),
                cpu=parse_options(job.request).cpus,
                memory_mb=(parse_options(job.request).memory or 0) // 2**20 or None,
                phase=status.native_state,
                ready=bool(status.ready),
                exit_code=status.exit_code,
                issue_reason="" if status.ready or status.state is JobState.COMPLETE else status.reason,
                issue_message="" if status.ready else status.message,
            )
        ]

    def cancel(self, job: Job, delete: bool = False) -> JobStatus:
        daemon = self.daemon(job.account)
        container = job.backend_id or self.find(job)
        if container is None:
            raise NoSuchJob(f"{job.name} has no container on {job.account}")
        status = ending.stop(daemon, job, container, parse_options(job.request).stop_seconds)
        if delete and status.state.terminal:
            starting.remove(daemon, container)
        return status

    def evidence(self, job: Job) -> Evidence:
        daemon = self.daemon(job.account)
        container = job.backend_id or self.find(job) or ""
        return Evidence(
            status=job.status,
            replicas=tuple(self.replicas(job)),
            events=observe.node_events(daemon, job, container),
            log_tail=tuple(ending.last_lines(daemon, container, job.name)),
            facts=ending.facts(daemon, container),
        )

    # -- before anything is submitted --------------------------------------------------------------------

    def check_access(self, request: JobRequest | None = None) -> list[Check]:
        return access.checks(self.daemon(self._endpoint(request)), request, self.credentials)

    def sees_this_machine(self, request: JobRequest | None = None) -> bool:
        return self.daemon(self._endpoint(request)).is_local

    def resources(self, account: str | None = None) -> list[ResourceTable]:
        return access.resources(self.daemon(account or self._endpoint(None)))
