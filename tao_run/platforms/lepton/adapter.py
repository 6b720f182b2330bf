"""The adapter for DGX Cloud Lepton: the platform contract over a workspace's API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from tao_run.errors import NoSuchJob
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
from tao_run.platforms.lepton.account import current_account, parse_account, token
from tao_run.platforms.lepton.api import LeptonApi
from tao_run.platforms.lepton.observing import Observer
from tao_run.platforms.lepton.states import read_status

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tao_run.clock import Clock
    from tao_run.credentials import Credentials
    from tao_run.jobs.request import JobRequest
    from tao_run.jobs.store import Store
    from tao_run.platforms.lepton.options import Options
    from tao_run.platforms.lepton.preparing import Place
    from tao_run.platforms.lepton.workspace import Workspace

_VERIFY_STEP = 1.0
_PLACE_SECONDS = 60.0
_USER_VARIABLE = "LEPTON_STORAGE_USER"


class LeptonSDK(Platform):
    """Runs jobs on DGX Cloud Lepton, in the workspace of LEPTON_WORKSPACE_ID with LEPTON_AUTH_TOKEN."""

    name = "lepton"
    name_limit = 36
    required_credentials = ("LEPTON_WORKSPACE_ID", "LEPTON_AUTH_TOKEN")
    #: how long `cancel` waits until a job is seen to have stopped
    verify_seconds = 20.0

    def __init__(
        self,
        credentials: Credentials | None = None,
        store: Store | None = None,
        clock: Clock | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(credentials, store, clock, note)
        self._api = lru_cache(maxsize=None)(self._connect)
        self._places: dict[Any, tuple[float, Place]] = {}
        self._place_lock = Lock()

    # -- before launch -------------------------------------------------------------------------------

    @classmethod
    def options_model(cls) -> type[BaseModel]:
        from tao_run.platforms.lepton.options import Options

        return Options

    def account(self, request: JobRequest) -> str:
        return str(current_account(self.credentials, request.for_platform()))

    def results_dir(self, request: JobRequest, job_id: str) -> str:
        """Known without asking for S3 and explicit results; a shared mount is found, and filled in, by `prepare`."""
        root = self._results_root(request)
        return f"{root}/{job_id}" if root else ""

    def _results_root(self, request: JobRequest) -> str:
        if request.results:
            return request.results.rstrip("/")
        bucket = self.credentials.setting("S3_BUCKET_NAME")
        return f"s3://{bucket}/results" if bucket else ""

    def prepare(self, job: Job) -> Launch:
        from tao_run.platforms.lepton import preparing

        request, options = job.request, self.options(job.request)
        workspace, place = self.workspace(job.account), self.place(request, job.account)
        root = self._results_root(request) or place.results_root
        launch = preparing.build_launch(job, options, place, self.credentials, root)
        body = workspace.sdk.wire_body(launch.native)
        return Launch(launch.job, body, launch.secrets, None, launch.notes, launch.extra)

    def discovered_results(self, request: JobRequest) -> str:
        return self.place(request, self.account(request)).results_root

    def place(self, request: JobRequest, account: str) -> Place:
        """Where a job of this request would run: asked once a minute at most, checks and submission share it.

        Raises UsageError listing what there is.
        """
        from tao_run.platforms.lepton.preparing import find_place

        options = self.options(request)
        user = self.storage_user(options)
        key = (account, user, options, request.gpus, request.mount)
        with self._place_lock:
            known = self._places.get(key)
            if known is None or self.clock.monotonic() - known[0] > _PLACE_SECONDS:
                found = find_place(self.workspace(account), request, options, user)
                known = self._places[key] = (self.clock.monotonic(), found)
        return known[1]

    def options(self, request: JobRequest) -> Options:
        """The platform options of a request. Raises UsageError naming what is wrong."""
        from tao_run.jobs.request import parse_model
        from tao_run.platforms.lepton.options import Options

        return parse_model(Options, request.for_platform(), "options of platform lepton")

    def storage_user(self, options: Options) -> str:
        """Who the user is in the storage permissions; empty if that was not said."""
        return options.storage_user or self.credentials.setting(_USER_VARIABLE)

    # -- the one call that creates ---------------------------------------------------------------------

    def launch(self, launch: Launch) -> str:
        from tao_run.platforms.lepton.launching import launch_job

        return launch_job(self.workspace(launch.job.account), launch, self.credentials, self.note)

    def find(self, job: Job) -> str | None:
        return self._observer(job.account).find(job)

    # -- while it lives --------------------------------------------------------------------------------

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        return self._observer(jobs[0].account).statuses(jobs) if jobs else {}

    def logs(self, job: Job, query: LogQuery) -> Iterator[LogLine]:
        from tao_run.platforms.lepton.ends import Marks
        from tao_run.platforms.lepton.logs import JobLog

        api = self._api(job.account)
        log = JobLog(api, self._document(job), job.created_at, Marks(job.id))
        return self._follow(api, log, job, query) if query.follow else log.lines(query)

    def _follow(self, api: LeptonApi, log: Any, job: Job, query: LogQuery) -> Iterator[LogLine]:
        from tao_run.platforms.lepton.follow import Follower

        if query.tail is None:
            yield from log.earlier_attempts(log.replica_ids(query.replica))
        observer = self._observer(job.account)
        follower = Follower(
            api,
            log,
            query,
            lambda: read_status(self._document(job), job.status, self.clock.now()),
            lambda: observer.replicas(job),
        )
        yield from follower.lines()

    def replicas(self, job: Job) -> list[Replica]:
        from tao_run.platforms.lepton.ends import ended_replicas
        from tao_run.platforms.lepton.workspace import both

        observer = self._observer(job.account)
        found, document = both(lambda: observer.replicas(job), lambda: observer.document(job))
        if document is None:
            return found
        state = read_status(document, job.status, self.clock.now()).state
        if not state.terminal:
            return found
        return ended_replicas(found, state, observer.ends(job, document) if state is JobState.ERROR else [])

    def cancel(self, job: Job, delete: bool = False) -> JobStatus:
        from tao_run.errors import NotFound

        sdk = self.workspace(job.account).sdk
        status = self._status(job)
        try:
            if not status.state.terminal:
                sdk.stop_job(str(job.backend_id))
                status = self._ended(job)
            if delete:
                sdk.delete_job(str(job.backend_id))
        except NotFound:
            status = self._status(job)
        return status

    def _ended(self, job: Job) -> JobStatus:
        """The status once the stop has taken effect, or what it is when the time to wait for that is over."""
        deadline = self.clock.monotonic() + self.verify_seconds
        while True:
            status = self._status(job)
            if status.state.terminal or self.clock.monotonic() >= deadline:
                return status
            self.clock.sleep(_VERIFY_STEP)

    def settle(self, job: Job) -> list[str]:
        from tao_run.platforms.lepton.launching import remove_secrets

        return remove_secrets(self.workspace(job.account), job.id) if self._may_have_secrets(job) else []

    def _may_have_secrets(self, job: Job) -> bool:
        """Whether secrets were made for the job, with whatever credentials were set where it was submitted."""
        from tao_run.entrypoint import entry_for
        from tao_run.platforms.lepton.body import is_ngc_image

        if is_ngc_image(job.request.image or "") or job.results_dir.startswith("s3://"):
            return True
        return bool(entry_for(job, credentials=self.credentials).secrets)

    def evidence(self, job: Job) -> Evidence:
        from tao_run.platforms.lepton.evidence import collect

        return collect(self._api(job.account), self._observer(job.account), job, self._document(job))

    # -- preflight and discovery -------------------------------------------------------------------------

    def check_access(self, request: JobRequest | None = None) -> list[Check]:
        from tao_run.platforms.lepton.checks import Checks

        return Checks(self, request).run()

    def prove_path(self, path: str, request: JobRequest | None = None) -> Check | None:
        """Paths are proved by the volume that the job mounts and by its storage permissions."""
        if request is None:
            return None
        from tao_run.storage.mounts import proof_by_mounts

        place = self.place(request, self.account(request))
        mounts = {mount.mount_path: f"{mount.source}:{mount.path}" for mount in self.options(request).mounts}
        if place.mount is not None:
            mounts[str(place.mount["mount_path"])] = f"{place.mount['from']}:{place.mount['path']}"
        return proof_by_mounts(path, mounts, "`tao-run resources` shows volumes and your paths; or use s3://")

    def resources(self, account: str | None = None) -> list[ResourceTable]:
        from tao_run.platforms.lepton.resources import tables

        user = self.credentials.setting(_USER_VARIABLE)
        return tables(self.workspace(account or self.current_account()), user)

    def list_resource_shapes(self) -> dict[str, dict[str, Any]]:
        """What can be asked for, by `<node group id>/<shape id>`: cluster, gpu_type (the shape), gpu_count, ..."""
        from tao_run.platforms.lepton.resources import shape_table

        return shape_table(self.workspace(self.current_account()))

    def get_volumes(self, node_group_id: str | None = None) -> list[dict[str, str]]:
        """Volumes of one node group (id or name) or of all: name, from_path, type, node_group."""
        from tao_run.platforms.lepton.resources import volume_rows

        return volume_rows(self.workspace(self.current_account()), node_group_id)

    def get_storage_permissions(self, volume_name: str, node_group_id: str) -> list[str]:
        """The path prefixes of a volume that may be mounted; `["/"]` if nothing is restricted.

        Folders of one's own are named if `LEPTON_STORAGE_USER` says who asks, else by their common prefix.
        """
        from tao_run.platforms.lepton.resources import prefix_rows

        user = self.credentials.setting(_USER_VARIABLE)
        return prefix_rows(self.workspace(self.current_account()), volume_name, node_group_id, user)

    def get_job_replicas(self, job_id: str) -> list[dict[str, Any]]:
        """The replicas as Lepton shows them: `status.node`, `status.cpu`, `status.memory_in_mb`,
        and `status.readiness_issue` (reason, message) while one is not ready."""
        from tao_run.platforms.lepton.workers import plain_row

        job = self.get_job(job_id)
        return [plain_row(row) for row in self._observer(job.account).replica_rows(job)]

    def current_account(self, options: Mapping[str, object] | None = None) -> str:
        """The workspace that the settings name. Raises CredentialMissing."""
        return str(current_account(self.credentials, options or {}))

    # -- the workspace -----------------------------------------------------------------------------------

    def _connect(self, account: str) -> LeptonApi:
        return LeptonApi(parse_account(account), token(self.credentials), self.clock)

    def _observer(self, account: str) -> Observer:
        return Observer(self._api(account))

    def workspace(self, account: str) -> Workspace:
        """The workspace of a recorded account."""
        from tao_run.platforms.lepton.workspace import Workspace

        return Workspace(self._api(account))

    def _status(self, job: Job) -> JobStatus:
        return self._observer(job.account).statuses([job])[job.id]

    def _document(self, job: Job) -> dict[str, Any]:
        document = self._observer(job.account).document(job) if job.backend_id else None
        if document is None:
            raise NoSuchJob(
                f"{job.name} is not in the workspace (any more)", f"`tao-run status {job.id}` has what is known"
            )
        return document
