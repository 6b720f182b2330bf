"""The SLURM adapter: request -> sbatch script, staged, submitted, observed, read and cancelled over ssh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tao_run.errors import UsageError
from tao_run.jobs.model import Check, Evidence, Job, JobStatus, LogLine, LogQuery, Replica, ResourceTable
from tao_run.platforms.base import Launch, Platform
from tao_run.platforms.slurm.cluster import Cluster, configured_cluster, parse_account
from tao_run.platforms.slurm.remote import Remote
from tao_run.platforms.slurm.ssh import SshSettings

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tao_run.jobs.request import JobRequest


class SlurmSDK(Platform):
    """Runs jobs on a SLURM cluster, over the system's OpenSSH or directly on a login node."""

    name = "slurm"
    name_limit = 60
    launch_grace = 120.0
    avoid_option = "exclude"

    @classmethod
    def options_model(cls) -> type[BaseModel]:
        from tao_run.platforms.slurm.options import Options

        return Options

    # -- before launch -------------------------------------------------------------------------------

    def complete(self, request: JobRequest) -> JobRequest:
        from tao_run.platforms.slurm.options import with_defaults

        return with_defaults(request, self.credentials)

    def account(self, request: JobRequest) -> str:
        return configured_cluster(self.credentials).account

    def results_dir(self, request: JobRequest, job_id: str) -> str:
        root = request.results or f"{configured_cluster(self.credentials).base}/results"
        if not root.startswith(("s3://", "/", "~/")):
            raise UsageError(
                f"results: {root!r} is no place on the cluster", "give s3://bucket/path or a directory there"
            )
        return f"{root.rstrip('/')}/{job_id}"

    def prepare(self, job: Job) -> Launch:
        from tao_run.entrypoint import entry_for
        from tao_run.platforms.slurm.script import job_files, native

        cluster = parse_account(job.account)
        entry = entry_for(job, results_root=job.results_dir.rsplit("/", 1)[0], credentials=self.credentials)
        files = job_files(job, cluster, entry.script, entry.env)
        return Launch(job, native(job, cluster, files, entry.secrets), entry.secrets, entry.payload, extra=files)

    def validate(self, launch: Launch) -> list[str]:
        from tao_run.platforms.slurm.submit import validate

        return validate(self._remote(launch.job), launch)

    # -- launch ----------------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> str:
        from tao_run.platforms.slurm.submit import submit

        values = {name: self.credentials.value(source) for name, source in launch.secrets.items()}
        return submit(self._remote(launch.job), launch, values)

    def find(self, job: Job) -> str | None:
        from tao_run.platforms.slurm.submit import find

        return find(self._remote(job), job)

    # -- while it lives --------------------------------------------------------------------------------

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        from tao_run.platforms.slurm.observe import poll

        return poll(self._remote(jobs[0]), jobs, self.clock.now()) if jobs else {}

    def logs(self, job: Job, query: LogQuery) -> Iterator[LogLine]:
        from tao_run.platforms.slurm.logs import LogReader

        remote = self._remote(job)
        ended = partial(self._ended, job)
        return LogReader(remote, remote.cluster.job_dir(job.name), job.nodes, self.clock, ended).lines(query)

    def _ended(self, job: Job) -> bool:
        from tao_run.platforms.slurm.observe import GONE

        status = self.poll([job])[job.id]
        return status.state.terminal or status.reason == GONE

    def replicas(self, job: Job) -> list[Replica]:
        from tao_run.platforms.slurm.details import replicas

        return replicas(self._remote(job), job, self.clock.now())

    def cancel(self, job: Job, delete: bool = False) -> JobStatus:
        from tao_run.platforms.slurm.cancel import cancel

        return cancel(self._remote(job), job, self.clock, delete)

    def evidence(self, job: Job) -> Evidence:
        from tao_run.platforms.slurm.details import evidence

        tail = tuple(self.logs(job, LogQuery(tail=2000)))
        return evidence(self._remote(job), job, self.clock.now(), tail)

    def settle(self, job: Job) -> list[str]:
        from tao_run.platforms.slurm.cancel import forget_secrets

        # a script that came to its end has removed them itself
        if job.status.exit_code is None and job.request.secrets:
            forget_secrets(self._remote(job), job)
        return []

    # -- before anything is submitted --------------------------------------------------------------------

    def check_access(self, request: JobRequest | None = None) -> list[Check]:
        from tao_run.platforms.slurm.checks import check_access

        cluster = configured_cluster(self.credentials)
        asked = self.complete(request) if request else None
        return check_access(self._remote_of(cluster), asked)

    def resources(self, account: str | None = None) -> list[ResourceTable]:
        from tao_run.platforms.slurm.resources import resources

        cluster = parse_account(account) if account else configured_cluster(self.credentials)
        return resources(self._remote_of(cluster))

    # -- paths -------------------------------------------------------------------------------------------

    def sees_this_machine(self, request: JobRequest | None = None) -> bool:
        return configured_cluster(self.credentials).direct

    def prove_path(self, path: str, request: JobRequest | None = None) -> Check | None:
        """A path must be on the cluster, and in a mount of the job if it runs in a container."""
        from tao_run.platforms.slurm.checks import prove_path

        cluster = configured_cluster(self.credentials)
        return prove_path(self._remote_of(cluster), path, self.complete(request) if request else None)

    def list_results(self, job: Job) -> Iterator[tuple[str, int | None]]:
        from tao_run.platforms.slurm.results import list_results

        if job.results_dir.startswith("s3://"):
            return super().list_results(job)
        return list_results(self._remote(job), job.results_dir)

    def download_results(self, job: Job, target: Path) -> int:
        from tao_run.platforms.slurm.results import download_results

        if job.results_dir.startswith("s3://"):
            return super().download_results(job, target)
        return download_results(self._remote(job), job.results_dir, target)

    def check_path(self, remote_path: str) -> bool:
        """Whether a path exists on the cluster, or an s3:// URI anywhere."""
        from tao_run.platforms.slurm.paths import check_path

        local = self._on_cluster(remote_path)
        return super().check_path(remote_path) if local is None else check_path(*local)

    def list_path(self, remote_path: str) -> list[str]:
        """What is under a path of the cluster, or an s3:// URI."""
        from tao_run.platforms.slurm.paths import list_path

        local = self._on_cluster(remote_path)
        return super().list_path(remote_path) if local is None else list_path(*local)

    def _on_cluster(self, path: str) -> tuple[Remote, str] | None:
        from tao_run.storage import parse_location

        if path.startswith("~/"):
            return self._remote_of(configured_cluster(self.credentials)), path
        location = parse_location(path)
        return (self._remote_of(configured_cluster(self.credentials)), location.path) if location.is_file else None

    # -- connections -------------------------------------------------------------------------------------

    def _remote(self, job: Job) -> Remote:
        return self._remote_of(parse_account(job.account))

    def _remote_of(self, cluster: Cluster) -> Remote:
        if cluster not in self._remotes:
            self._remotes[cluster] = Remote(cluster, SshSettings.read(self.credentials))
        return self._remotes[cluster]

    @cached_property
    def _remotes(self) -> dict[Cluster, Remote]:
        """One connection for each cluster, made when first used."""
        return {}
