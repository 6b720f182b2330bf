"""The contract of a platform: what an adapter implements, and the SDK methods that users call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tao_run.clock import Clock, SystemClock
from tao_run.credentials import Credentials
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
from tao_run.platforms.sdk import SDKMethods

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tao_run.jobs.request import JobRequest
    from tao_run.jobs.store import Store


@dataclass(frozen=True)
class Launch:
    """The backend's own object, built and not yet sent.

    `native` is what `--dry-run` prints: text (a script) or plain data, exactly as it would be sent, with
    secrets as references. `secrets` maps a container variable to the credential whose value `launch` reads.
    `payload` is the runner and its plan when they are too large for a command; `launch` stages it.
    `extra` is the adapter's own.
    """

    job: Job
    native: Any
    secrets: Mapping[str, str] = field(default_factory=dict)
    payload: bytes | None = None
    notes: tuple[str, ...] = ()
    extra: Any = None


class Platform(SDKMethods, ABC):
    """A backend that runs jobs.

    An adapter owns one backend kind; `account` of a job says which installation of it (a workspace, a host,
    a context). Construction touches nothing: no network, no SDK import, no credential is required.
    Every method that talks to the backend raises: BackendUnreachable (also 5xx, 429 and answers that are no
    answers), CredentialRefused (401), PermissionRefused (403), NotInstalled. It never turns such an error
    into a state.
    """

    name: ClassVar[str]
    #: job names are cut to this many characters
    name_limit: ClassVar[int] = 36
    #: names of credentials that `launch` and `poll` need on this platform
    required_credentials: ClassVar[tuple[str, ...]] = ()
    #: whether `nodes` may be more than one
    multi_node: ClassVar[bool] = True
    #: seconds after which a job that was recorded and cannot be found is known never to have been launched
    launch_grace: ClassVar[float] = 30.0

    #: the option that keeps a job off nodes (names, separated by commas), where the backend has one
    avoid_option: ClassVar[str | None] = None

    def __init__(
        self,
        credentials: Credentials | None = None,
        store: Store | None = None,
        clock: Clock | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self._credentials = credentials
        self._store = store
        self.clock: Clock = clock or SystemClock()
        self.note: Callable[[str], None] = note or (lambda text: None)

    @property
    def credentials(self) -> Credentials:
        """The user's credentials, read when first asked for."""
        if self._credentials is None:
            self._credentials = Credentials.load()
        return self._credentials

    # -- before launch -------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def options_model(cls) -> type[BaseModel]:
        """The strict pydantic model of this platform's own options (`-o key=value`), each with a description."""

    def complete(self, request: JobRequest) -> JobRequest:
        """Fill in what must be remembered of where the request was made (a working directory). No network."""
        return request

    @abstractmethod
    def account(self, request: JobRequest) -> str:
        """Where a job of this request would live. No network. Raises CredentialMissing, UsageError."""

    @abstractmethod
    def results_dir(self, request: JobRequest, job_id: str) -> str:
        """Where the results of a job will be. No network; empty if nowhere durable."""

    def discovered_results(self, request: JobRequest) -> str:
        """Where results would go on a mount that only the backend can name, by asking it. Empty if nowhere."""
        return ""

    @abstractmethod
    def prepare(self, job: Job) -> Launch:
        """Request -> native object. Creates nothing; contacts the backend only to discover what must be known.

        Raises UsageError if the platform cannot run this request.
        """

    def validate(self, launch: Launch) -> list[str]:
        """Let the backend check a launch without creating it (`--dry-run=server`). Returns notes."""
        from tao_run.errors import UsageError

        raise UsageError(f"platform {self.name} has no server-side dry-run", "use --dry-run")

    # -- the one call that creates ---------------------------------------------------------------------

    @abstractmethod
    def launch(self, launch: Launch) -> str:
        """Create the job on the backend and return its id there.

        The backend object carries `launch.job.name` or a label with the job id, so that `find` sees it even
        if the answer is lost. After BackendUnreachable the job may or may not exist: the caller asks `find`.
        Any other error (Unavailable for a backend that failed earlier) means: nothing was created, and what
        was created on the way has been removed.
        """

    @abstractmethod
    def find(self, job: Job) -> str | None:
        """The backend id of a job by its name or label, or None if the backend says that there is none."""

    # -- while it lives ----------------------------------------------------------------------------------

    @abstractmethod
    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """Observe many jobs of ONE account with the fewest requests. Read-only.

        Returns a status for every job given, by job id. A job that is gone from the backend is not an
        error of the backend: its status says so (terminal with a reason, or Unknown).
        """

    @abstractmethod
    def logs(self, job: Job, query: LogQuery) -> Iterator[LogLine]:
        """Lines in time order, labelled by rank, as a stream: never a whole log in memory.

        With `follow` it ends only after the job is terminal and the last lines are drained; it survives
        disconnects without losing or repeating a line, and yields a `gap` where lines are known missing.
        """

    @abstractmethod
    def replicas(self, job: Job) -> list[Replica]:
        """The workers of a job, by rank."""

    @abstractmethod
    def cancel(self, job: Job, delete: bool = False) -> JobStatus:
        """Stop the job, verify, and return what was observed. Safe to repeat.

        Record, logs and analysis stay; `delete` also removes the job from the backend. If the job still
        runs when the time to verify is over, the status says Running: the caller tells the user.
        """

    @abstractmethod
    def evidence(self, job: Job) -> Evidence:
        """Everything that the backend knows of how the job went: events, exit codes, the end of the log."""

    @abstractmethod
    def check_access(self, request: JobRequest | None = None) -> list[Check]:
        """Preflight checks of this platform: reachable, allowed, and what `request` names exists there."""

    # -- where the backend can ---------------------------------------------------------------------------

    def sees_this_machine(self, request: JobRequest | None = None) -> bool:
        """Whether jobs see the file system of this machine (processes here, a container daemon here)."""
        return False

    def prove_path(self, path: str, request: JobRequest | None = None) -> Check | None:
        """Whether jobs see an absolute path that is no object-store URI, asked of the platform.

        None: this platform cannot tell. Files of this machine prove nothing unless jobs see them.
        """
        if not self.sees_this_machine(request):
            return None
        from tao_run.storage import check_path

        if check_path(path, self.credentials):
            return Check("path", "ok", f"{path} exists on this machine")
        return Check("path", "failed", f"{path} does not exist on this machine", "check the path")

    def resources(self, account: str | None = None) -> list[ResourceTable]:
        """What can be asked for: shapes, partitions, GPUs. Empty if the platform has nothing to list."""
        return []

    def list_results(self, job: Job) -> Iterator[tuple[str, int | None]]:
        """Path below the results directory and size in bytes of every result. Raises UsageError if it cannot look."""
        from tao_run.storage.tree import walk

        return walk(job.results_dir, self.credentials)

    def download_results(self, job: Job, target: Path) -> int:
        """Copy all results into a directory of this machine; returns how many files."""
        from tao_run.storage.tree import download

        return download(job.results_dir, target, self.credentials)

    def avoid_nodes(self, request: JobRequest, nodes: Sequence[str]) -> JobRequest:
        """The request, kept off nodes that were at fault; as it was, with a note, where that cannot be asked for."""
        names = ", ".join(nodes)
        if self.avoid_option is None:
            self.note(f"{self.name} cannot be told to avoid {names}: the scheduler may choose it again")
            return request
        self.note(f"avoiding {names}")
        block = request.for_platform()
        known = [name for name in str(block.get(self.avoid_option) or "").split(",") if name]
        block[self.avoid_option] = ",".join(dict.fromkeys([*known, *nodes]))
        return request.model_copy(update={"options": {**request.options, self.name: block}})

    def settle(self, job: Job) -> list[str]:
        """Called when a job was seen to end: release what it held (a rented instance). Returns notes for the user."""
        return []

    def leftovers(self) -> list[str]:
        """One line for each thing left on the backend that costs money and belongs to no running job."""
        return []
