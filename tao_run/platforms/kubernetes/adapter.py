"""The Kubernetes adapter: a job is a Job of one namespace, with what belongs to it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_run.errors import NotFound, PermissionRefused, TaoRunError, UsageError
from tao_run.jobs.model import Check, Evidence, Job, JobState, JobStatus, LogLine, LogQuery, Replica, ResourceTable
from tao_run.platforms.base import Launch, Platform
from tao_run.platforms.kubernetes import access, capacity, manifest, names, pods, states
from tao_run.platforms.kubernetes.account import SERVICE_ACCOUNT, Account, choose
from tao_run.platforms.kubernetes.canceling import Canceling
from tao_run.platforms.kubernetes.client import Api, connect
from tao_run.platforms.kubernetes.events import events_of
from tao_run.platforms.kubernetes.keepsake import Keepsake
from tao_run.platforms.kubernetes.launching import Launching, try_on_server
from tao_run.platforms.kubernetes.logs import JobLog, Timing, View, check_replica
from tao_run.platforms.kubernetes.observing import Observer
from tao_run.platforms.kubernetes.options import Options, shared_path, with_shared_mount
from tao_run.platforms.references import NGC_REGISTRY, split_reference
from tao_run.platforms.streams import last_lines

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tao_run.jobs.request import JobRequest

_EVIDENCE_LINES = 2000


class KubernetesSDK(Platform):
    """Runs jobs on a Kubernetes cluster, with rights in one namespace only.

    `timing` and `service_account` are where tests and unusual installations differ.
    """

    name = "kubernetes"
    name_limit = names.NAME_LIMIT
    launch_grace = 60.0

    def __init__(
        self, *args: Any, timing: Timing | None = None, service_account: Path = SERVICE_ACCOUNT, **parts: Any
    ) -> None:
        super().__init__(*args, **parts)
        self._timing = timing or Timing()
        self._service_account = service_account
        self._apis: dict[str, Api] = {}

    @classmethod
    def options_model(cls) -> type[BaseModel]:
        return Options

    # -- before launch -------------------------------------------------------------------------------

    def account(self, request: JobRequest) -> str:
        return str(self._choose(self._options(request)))

    def _choose(self, options: Options) -> Account:
        return choose(self.credentials, options.context, options.namespace, self._service_account)

    @staticmethod
    def _options(request: JobRequest) -> Options:
        return with_shared_mount(Options.parse(request.options.get("kubernetes", {})), request.mount)

    def results_dir(self, request: JobRequest, job_id: str) -> str:
        root = self._results_root(request)
        return f"{root.rstrip('/')}/{job_id}" if root else ""

    def _results_root(self, request: JobRequest) -> str:
        """`--results`, else the bucket, else `results` on the first mount that can be written."""
        if request.results:
            if "://" not in request.results and not request.results.startswith("/"):
                raise UsageError(
                    f"results {request.results!r}: the cluster knows no current directory",
                    "give an s3:// URI, or a path on a mount (-o pvc=CLAIM:/PATH)",
                )
            return request.results
        bucket = self.credentials.setting("S3_BUCKET_NAME")
        if bucket:
            return f"s3://{bucket}/results"
        options = self._options(request)
        writable = [mount for mount in (*options.pvc, *options.host_path) if not mount.read_only]
        return posixpath.join(writable[0].path, "results") if writable else ""

    def prepare(self, job: Job) -> Launch:
        from tao_run.entrypoint import entry_for

        entry = entry_for(
            job,
            mount=shared_path(job.request.mount),
            results_root=job.results_dir.rpartition("/")[0] or None,
            credentials=self.credentials,
        )
        return self.assemble(job, manifest.Parts(entry.script, entry.env, entry.secrets, entry.payload))

    def assemble(self, job: Job, parts: manifest.Parts) -> Launch:
        """The launch of a job whose container command is known."""
        if not job.request.image:
            raise UsageError("platform kubernetes needs an image", "give --image, or --model and --action")
        options = self._options(job.request)
        parts = replace(parts, ngc_pull=self._pulls_with_ngc_key(job.request.image, options))
        items = manifest.build(job, options, Account.parse(job.account).namespace, parts)
        native = {"apiVersion": "v1", "kind": "List", "items": items}
        secrets = {**parts.secrets, **({".dockerconfigjson": "NGC_KEY"} if parts.ngc_pull else {})}
        return Launch(job, native, secrets, parts.payload, self._notes(job, options))

    def _pulls_with_ngc_key(self, image: str, options: Options) -> bool:
        from_ngc = split_reference(image).registry == NGC_REGISTRY
        return from_ngc and not options.image_pull_secret and self.credentials.has("NGC_KEY")

    def _notes(self, job: Job, options: Options) -> tuple[str, ...]:
        notes = []
        root = job.results_dir
        targets = [mount.path for mount in (*options.pvc, *options.host_path)]
        if not root:
            notes.append("results stay in the pod and go with it: an s3:// URI or a mount for --results keeps them")
        elif "://" not in root and not any(posixpath.commonpath([root, target]) == target for target in targets):
            notes.append(f"{root} is on no mount: what is written there goes with the pod")
        return tuple(notes)

    def validate(self, launch: Launch) -> list[str]:
        return try_on_server(self._api(launch.job.account), launch.native["items"])

    # -- launch ----------------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> str:
        values = {source: self.credentials.value(source) for source in launch.secrets.values()}
        api = self._api(launch.job.account)
        return Launching(api, launch.job, self.clock, self.launch_grace).run(launch.native["items"], values)

    def find(self, job: Job) -> str | None:
        try:
            native = self._api(job.account).get("jobs", job.name)
        except NotFound:
            return None
        if (native["metadata"].get("labels") or {}).get(names.JOB_ID) != job.id:
            return None
        age = (self.clock.now() - job.created_at).total_seconds()
        if states.is_unfinished_launch(native) and age < self.launch_grace:
            return None  # its launcher may still be at it; later it is found, and `poll` says what it is
        return str(native["metadata"]["uid"])

    # -- while it lives ----------------------------------------------------------------------------------

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        if not jobs:
            return {}
        return self._observer(jobs[0]).statuses(jobs)

    def _observer(self, job: Job) -> Observer:
        return Observer(self._api(job.account), self.clock.now(), self.launch_grace)

    def logs(self, job: Job, query: LogQuery) -> Iterator[LogLine]:
        kept = self._keepsake(job)
        if kept.exists:
            check_replica(query, job.nodes, [replica.name for replica in kept.evidence(job.status, ()).replicas])
            wanted = (line for line in kept.lines() if _fits(line, query))
            yield from last_lines(wanted, query.tail)
            return
        yield from self._job_log(job, query).lines()

    def _job_log(self, job: Job, query: LogQuery) -> JobLog:
        api = self._api(job.account)
        return JobLog(api, query, lambda: self._view(api, job), self._timing, job.nodes)

    def _view(self, api: Api, job: Job) -> View:
        found = self._pods(api, job)
        if any(pods.is_running(pod) for pod in found):
            return View(found, over=False)
        status = self._observer(job).statuses([job])[job.id]
        over = status.state.terminal or status.reason == "Expired"
        waits = status.state in (JobState.PENDING, JobState.PAUSED, JobState.UNKNOWN)
        said = f"{status.state}: {status.reason}{f': {status.message}' if status.message else ''}" if waits else ""
        return View(found, over, said)

    @staticmethod
    def _pods(api: Api, job: Job) -> list[dict[str, Any]]:
        return api.list("pods", labels=f"{names.JOB_ID}={job.id}")

    def replicas(self, job: Job) -> list[Replica]:
        found = pods.newest_per_rank(self._pods(self._api(job.account), job))
        kept = self._keepsake(job)
        if not found and kept.exists:
            return list(kept.evidence(job.status, ()).replicas)
        return [pods.replica_of(pod) for pod in found]

    def get_job_replicas(self, job_id: str) -> list[dict[str, Any]]:
        """The workers as other SDKs of the field show them: `status.node`, `status.phase`, and
        `status.readiness_issue` (reason, message) while one is not ready."""
        return [pods.plain_row(replica) for replica in self.replicas(self.get_job(job_id))]

    def evidence(self, job: Job) -> Evidence:
        tail = tuple(self.logs(job, LogQuery(tail=_EVIDENCE_LINES)))
        kept = self._keepsake(job)
        if kept.exists:
            return kept.evidence(job.status, tail)
        return replace(self._evidence_now(job), log_tail=tail)

    def _evidence_now(self, job: Job) -> Evidence:
        api = self._api(job.account)
        status = self._observer(job).statuses([job])[job.id]
        if job.status.state.terminal and status.native_state.startswith("Removed"):
            status = job.status
        facts = {"namespace": api.account.namespace, "context": api.account.context}
        if status.state is JobState.PENDING:
            facts["pending_minutes"] = str(int((self.clock.now() - job.created_at).total_seconds() / 60))
        return Evidence(status, tuple(self.replicas(job)), events_of(api, job.name), facts=facts)

    # -- the end -------------------------------------------------------------------------------------------

    def cancel(self, job: Job, delete: bool = False) -> JobStatus:
        api = self._api(job.account)
        kept = self._keepsake(job)
        status = self._observer(job).statuses([job])[job.id]
        native = self._native(api, job)
        if native is None or (status.state.terminal and not delete):
            if delete:
                kept.remove()
            return status
        canceling = Canceling(api, job, native["metadata"]["uid"], self.clock, self._timing)
        if delete:
            end = canceling.run()
            kept.remove()
        else:
            end = canceling.run_and_keep(kept, self._evidence_now(job), self.note)
        return status if status.state.terminal else end

    def _native(self, api: Api, job: Job) -> dict[str, Any] | None:
        try:
            native = api.get("jobs", job.name)
        except NotFound:
            return None
        return native if job.backend_id in (None, native["metadata"]["uid"]) else None

    # -- where it is ---------------------------------------------------------------------------------------

    def check_access(self, request: JobRequest | None = None) -> list[Check]:
        options = self._options(request) if request else Options.parse({})
        try:
            api = self._connect(self._choose(options))
        except TaoRunError as error:
            return [Check("kubernetes-access", "failed", error.message, error.hint)]
        return access.checks(api, request, options, needs_secret=bool(request and request.secrets))

    def prove_path(self, path: str, request: JobRequest | None = None) -> Check | None:
        """Paths are proved by the claims and node directories that the job mounts; those are checked by name."""
        if request is None:
            return None
        from tao_run.storage.mounts import proof_by_mounts

        options = self._options(request)
        mounts = {mount.path: f"claim {mount.source}" for mount in options.pvc}
        mounts |= {mount.path: f"{mount.source} of the node" for mount in options.host_path}
        return proof_by_mounts(path, mounts, "mount a claim there (-o pvc=CLAIM:/PATH), or use s3://")

    def resources(self, account: str | None = None) -> list[ResourceTable]:
        options = Options.parse({})
        api = self._api(account) if account else self._connect(self._choose(options))
        nodes = api.list("nodes")
        try:
            running: list[dict[str, Any]] | None = api.list("pods", everywhere=True)
        except PermissionRefused:
            running = None
        return [capacity.table(nodes, running, options.gpu_resource)]

    def list_results(self, job: Job) -> Iterator[tuple[str, int | None]]:
        self._require_reachable_results(job)
        return super().list_results(job)

    def download_results(self, job: Job, target: Path) -> int:
        self._require_reachable_results(job)
        return super().download_results(job, target)

    @staticmethod
    def _require_reachable_results(job: Job) -> None:
        if job.results_dir and "://" not in job.results_dir:
            raise UsageError(
                f"the results are at {job.results_dir} in the pods, on a mount of the cluster",
                "look at them from a pod that mounts it (`kubectl cp`), or give an s3:// URI with --results",
            )

    def _api(self, account: str) -> Api:
        if account not in self._apis:
            self._apis[account] = self._connect(Account.parse(account))
        return self._apis[account]

    def _connect(self, account: Account) -> Api:
        return connect(account, self.credentials, self._service_account)

    def _keepsake(self, job: Job) -> Keepsake:
        return Keepsake(self.store.directory, job.id)


def _fits(line: LogLine, query: LogQuery) -> bool:
    if query.replica not in (None, line.replica, str(line.rank)):
        return False
    return query.since is None or line.time is None or line.time >= query.since
