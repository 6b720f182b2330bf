"""The Brev adapter: a job is one container on an instance that exists, or on one that is rented for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tao_run.errors import NoSuchJob, TaoRunError, UsageError
from tao_run.jobs.model import Check, Evidence, Job, JobStatus, LogLine, LogQuery, Replica, ResourceTable
from tao_run.platforms.base import Launch, Platform
from tao_run.platforms.brev import ending, launching, observing, rented
from tao_run.platforms.brev.checks import run_checks
from tao_run.platforms.brev.client import BrevCli
from tao_run.platforms.brev.fleet import Fleet
from tao_run.platforms.brev.logs import LogStream
from tao_run.platforms.brev.options import BrevOptions
from tao_run.platforms.brev.plan import check_request, make_plan
from tao_run.platforms.brev.saved import Saved

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tao_run.jobs.request import JobRequest


class BrevSDK(Platform):
    """Runs jobs on Brev GPU instances. A login made with `brev login` is enough; BREV_API_TOKEN renews it."""

    name = "brev"
    multi_node = False

    @classmethod
    def options_model(cls) -> type[BaseModel]:
        return BrevOptions

    @cached_property
    def fleet(self) -> Fleet:
        """The instances of this login."""
        return Fleet(BrevCli(lambda: self.credentials, os.environ), self.clock, lambda text: self.note(text))

    @cached_property
    def _launching(self) -> set[str]:
        """Ids of the jobs that this process is launching now."""
        return set()

    # -- before launch -------------------------------------------------------------------------------

    def account(self, request: JobRequest) -> str:
        return self.fleet.cli.active_org()

    def results_dir(self, request: JobRequest, job_id: str) -> str:
        bucket = self.credentials.setting("S3_BUCKET_NAME")
        root = request.results or (f"s3://{bucket}/results" if bucket else "")
        return f"{root.rstrip('/')}/{job_id}" if root else ""

    def prepare(self, job: Job) -> Launch:
        from tao_run.entrypoint import entry_for

        options = options_of(job.request)
        check_request(job.request, options)
        root = job.results_dir.rpartition("/")[0]
        entry = entry_for(job, results_root=root, credentials=self.credentials)
        plan = make_plan(
            job, options, entry.script, entry.env, tuple(entry.secrets), entry.payload is not None,
            self.fleet.types, self.credentials.has("NGC_KEY"),
        )  # fmt: skip
        native = plan.native()
        if entry.secrets:
            native["secrets"] = {name: f"credential {source}" for name, source in entry.secrets.items()}
        return Launch(job, native, entry.secrets, entry.payload, _notes(job, options), extra=plan)

    # -- launch ----------------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> str:
        plan, job = launch.extra, launch.job
        secrets = {name: self.credentials.value(source) for name, source in launch.secrets.items()}
        ngc_key = self.credentials.value("NGC_KEY") if plan.container.registry else ""
        self._launching.add(job.id)
        try:
            parcels = self.store.directory / "brev" / "parcels"
            instance = launching.Launcher(self.fleet, plan, secrets, ngc_key, launch.payload, parcels).run()
        finally:
            self._launching.discard(job.id)
        return backend_id(instance, job)

    def find(self, job: Job) -> str | None:
        options = options_of(job.request)
        name = options.instance or job.name
        instance = self.fleet.get(name, job.account)
        if instance is None:
            return None
        if options.rented:  # it is the job's own, however far the launch came: poll says how far
            return backend_id(instance.name, job)
        return backend_id(instance.name, job) if observing.has_job(self.fleet, instance, job.name) else None

    # -- while it lives ----------------------------------------------------------------------------------

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        return observing.Observer(self.fleet, self._is_launching, self._saved).poll(jobs)

    def _is_launching(self, job: Job) -> bool:
        """Whether the submission of a job is still under way, in this process or another."""
        from tao_run.platforms.lifecycle import launcher_alive, launcher_identity

        if job.id in self._launching:
            return True
        if (self.clock.now() - job.created_at).total_seconds() < self.launch_grace:
            return True
        launcher = self.store.launcher(job.id)
        return launcher != launcher_identity() and launcher_alive(launcher)

    def logs(self, job: Job, query: LogQuery) -> Iterator[LogLine]:
        if query.replica not in (None, "0", job.name):
            raise UsageError(f"{job.name} has one replica, 0")
        saved = self._saved(job)
        return saved.logs(query) if saved.exists else self._live_log(job).read(query)

    def _live_log(self, job: Job) -> LogStream:
        instance = instance_of(job)
        if observing.look_at(self.fleet, instance, job.account) is None:
            raise NoSuchJob(f"instance {instance} of {job.name} does not run: its log cannot be read", "`brev ls`")
        return LogStream(self.fleet.cli, self.clock, instance, job.name, lambda: self.poll([job])[job.id])

    def replicas(self, job: Job) -> list[Replica]:
        saved = self._saved(job)
        status = job.status if saved.exists else self.poll([job])[job.id]
        instance = None if saved.exists else self.fleet.get(instance_of(job), job.account)
        return [observing.replica(job, status, instance)]

    def cancel(self, job: Job, delete: bool = False) -> JobStatus:
        status = ending.stop(self.fleet, job, self._observe_one)
        if status.state.terminal:
            ended = replace(job, status=status)
            notes = self.settle(ended)
            if delete:
                notes += ending.forget(self.fleet, ended, self._saved(job), lambda: self._whole_log(job))
            for note in notes:
                self.note(note)
        return status

    def _observe_one(self, job: Job) -> JobStatus:
        return self.poll([job])[job.id]

    def settle(self, job: Job) -> list[str]:
        options = options_of(job.request)
        if job.backend_id is None:
            return [] if options.rented else ending.clear(self.fleet, job)
        if not options.rented:
            return []
        return ending.settle(self.fleet, job, self._saved(job), lambda: self._whole_log(job))

    def _whole_log(self, job: Job) -> Iterator[LogLine]:
        return self._live_log(job).read(LogQuery())

    def evidence(self, job: Job) -> Evidence:
        saved = self._saved(job)
        if saved.exists:
            return observing.saved_evidence(job, saved)
        status = self.poll([job])[job.id]
        return observing.evidence(self.fleet, job, status, lambda query: self._live_log(job).read(query))

    def _saved(self, job: Job) -> Saved:
        return Saved(self.store.directory, job.id)

    # -- preflight and inventory -------------------------------------------------------------------------

    def check_access(self, request: JobRequest | None = None) -> list[Check]:
        return run_checks(
            self.fleet, request, BrevOptions.model_validate({}) if request is None else options_of(request)
        )

    def resources(self, account: str | None = None) -> list[ResourceTable]:
        return [rented.types_table(self.fleet.types()), rented.instances_table(self.list_instances())]

    def list_instances(self) -> list[dict[str, Any]]:
        """The instances of the active organization: name, id, status, type, gpu, job, state, age (seconds), note.

        `job` is the recorded job that an instance was rented for, or that runs there.
        """
        return rented.rows(self.fleet.listed(), self.store.recent(None), self.clock.now())

    def delete_instance(self, instance_id: str) -> bool:
        """Delete an instance by name or id and see it go. True if there was one.

        The logs of recorded jobs that ended there are kept first. Raises BackendRejected if it is still there
        afterwards.
        """
        instance = self.fleet.get(instance_id)
        if instance is None:
            return False
        for job in self.store.recent(None):
            here = job.platform == self.name and job.backend_id and instance_of(job) == instance.name
            if here and job.status.state.terminal and not self._saved(job).exists:
                log = partial(self._whole_log, job)
                for note in ending.keep(self.fleet, job, instance.type, self._saved(job), log):
                    self.note(note)
        self.fleet.delete(instance.name)
        return True

    def leftovers(self) -> list[str]:
        try:
            found = self.list_instances()
        except TaoRunError as error:
            return [f"whether rented instances are left is not known: {error.message}"]
        return [line for row in found if (line := rented.leftover(row, self._is_launching_id))]

    def _is_launching_id(self, job_id: str) -> bool:
        return self._is_launching(self.store.get(job_id))


def options_of(request: JobRequest) -> BrevOptions:
    """The Brev options of a request. Raises UsageError."""
    from tao_run.jobs.request import parse_model

    options: BrevOptions = parse_model(BrevOptions, request.options.get("brev", {}), "options of platform brev")
    return options


def backend_id(instance: str, job: Job) -> str:
    """`instance/container`."""
    return f"{instance}/{job.name}"


def instance_of(job: Job) -> str:
    """The name of the instance that a job was launched on."""
    if job.backend_id is None:
        raise NoSuchJob(f"{job.name} has not been launched")
    return job.backend_id.partition("/")[0]


def _notes(job: Job, options: BrevOptions) -> tuple[str, ...]:
    notes = []
    if options.rented and options.keep_instance:
        notes.append(f"instance {job.name} will be kept when the job has ended; it costs money until it is deleted")
    elif options.rented:
        notes.append(
            f"instance {job.name} is deleted when the job is seen to end: keep `tao-run watch {job.id}` running"
        )
    if not job.results_dir:
        notes.append("results stay on the instance and are lost with it: --results s3://BUCKET/PREFIX keeps them")
    return tuple(notes)
