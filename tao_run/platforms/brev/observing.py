"""Looking at jobs: one `ls` for all, one probe per instance; replicas and the evidence of how a job went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tao_run.errors import BackendUnreachable, TaoRunError
from tao_run.jobs.model import Evidence, Job, JobState, JobStatus, LogLine, LogQuery, NodeEvent, Replica
from tao_run.platforms.brev import scripts
from tao_run.platforms.brev.fleet import Fleet
from tao_run.platforms.brev.inventory import Instance
from tao_run.platforms.brev.saved import Saved
from tao_run.platforms.brev.states import INSTANCE_STATES, instance_status, job_status, read_probe

EVIDENCE_LINES = 2000
PROBE_TIMEOUT = 120.0


class Observer:
    """Polls jobs. `launching` tells whether the submission of a job is still under way, `saved` what was kept of it."""

    def __init__(self, fleet: Fleet, launching: Callable[[Job], bool], saved: Callable[[Job], Saved]) -> None:
        self._fleet = fleet
        self._launching = launching
        self._saved = saved

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """A status for every job. An instance that does not answer leaves its jobs' last state, not reachable.

        Raises BackendUnreachable if no instance could be asked.
        """
        by_instance: dict[str, list[Job]] = {}
        for job in jobs:
            by_instance.setdefault((job.backend_id or job.name).partition("/")[0], []).append(job)
        located = self._fleet.locate(list(by_instance), jobs[0].account) if jobs else {}
        seen: dict[str, JobStatus] = {}
        faults: list[BackendUnreachable] = []
        for name, members in by_instance.items():
            try:
                seen |= self._on_instance(name, located.get(name), members)
            except BackendUnreachable as error:
                faults.append(error)
                seen |= {job.id: replace(job.status, reachable=False, message=error.message) for job in members}
        if faults and len(faults) == len(by_instance):
            raise faults[0]
        return seen

    def _on_instance(self, name: str, instance: Instance | None, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        if instance is None:
            text = f"instance {name} no longer exists, and the job with it"
            gone = JobStatus(JobState.ERROR, "InstanceGone", text)
            return {job.id: self._saved(job).status() or gone for job in jobs}
        known = instance_status(instance.status, name)
        if known is not None:
            return {job.id: known for job in jobs}
        answer = self._fleet.cli.exec(name, scripts.probe([job.name for job in jobs]), PROBE_TIMEOUT)
        found = read_probe(answer.text)
        if any(job.name not in found for job in jobs):
            raise BackendUnreachable(f"instance {name} gave half an answer: {answer.text.strip()[-200:]!r}")
        health = "" if instance.status == "RUNNING" else f" (instance {name} is {instance.status})"
        return {
            job.id: _with_health(job_status(found[job.name], self._launching(job)), health) for job in jobs
        }  # fmt: skip


def _with_health(status: JobStatus, health: str) -> JobStatus:
    return replace(status, message=f"{status.message}{health}".strip()) if health else status


def look_at(fleet: Fleet, name: str, account: str) -> Instance | None:
    """The instance if commands can run on it. Never let a command go to another: it would be started."""
    instance = fleet.get(name, account)
    if instance is None or INSTANCE_STATES.get(instance.status, ("",)) is not None:
        return None
    return instance


def has_job(fleet: Fleet, instance: Instance, name: str) -> bool:
    """Whether a job was started on an instance that runs. Raises BackendUnreachable if it does not run."""
    if INSTANCE_STATES.get(instance.status, ("",)) is not None:
        raise BackendUnreachable(f"instance {instance.name} is {instance.status}", f"brev start {instance.name}")
    found = read_probe(fleet.cli.exec(instance.name, scripts.probe([name]), PROBE_TIMEOUT).text)
    return found[name].kind != "absent"


def replica(job: Job, status: JobStatus, instance: Instance | None) -> Replica:
    """The one worker of a job."""
    waiting = status.state in (JobState.PENDING, JobState.UNKNOWN) or status.state is JobState.ERROR
    return Replica(
        rank=0,
        name=job.name,
        node=(job.backend_id or job.name).partition("/")[0],
        node_group="" if instance is None else instance.type,
        phase=status.state.value,
        ready=status.state is JobState.RUNNING,
        exit_code=status.exit_code,
        issue_reason=status.reason if waiting else "",
        issue_message=status.message if waiting else "",
    )


def evidence(fleet: Fleet, job: Job, status: JobStatus, logs: Callable[[LogQuery], Iterator[LogLine]]) -> Evidence:
    """What is known of a job whose instance is still there (or not: then what `ls` says)."""
    name = (job.backend_id or job.name).partition("/")[0]
    instance = fleet.get(name, job.account)
    facts = {"instance": name, "instance_status": "gone" if instance is None else instance.status}
    tail: tuple[LogLine, ...] = ()
    if instance is not None:
        facts |= {"instance_type": instance.type, "instance_health": instance.health}
        tail = _tail(logs) if look_at(fleet, name, job.account) else ()
    return Evidence(
        status, (replica(job, status, instance),), tuple(_events(status, name, instance)), tail, facts=facts
    )


def _tail(logs: Callable[[LogQuery], Iterator[LogLine]]) -> tuple[LogLine, ...]:
    try:
        return tuple(logs(LogQuery(tail=EVIDENCE_LINES)))
    except TaoRunError as error:
        return (LogLine(f"the log could not be read: {error.message}", kind="gap"),)


def job_events(status: JobStatus, node: str) -> Iterator[NodeEvent]:
    """What befell a job, as far as its status tells."""
    if status.reason == "OOMKilled":
        yield NodeEvent("OOM", "the kernel killed the container: out of memory", node)
    elif status.reason and status.state is JobState.ERROR and status.reason != "ExitCode":
        yield NodeEvent(status.reason, status.message, node)


def _events(status: JobStatus, node: str, instance: Instance | None) -> Iterator[NodeEvent]:
    yield from job_events(status, node)
    if instance is not None and instance.status not in ("RUNNING", "DELETING"):
        yield NodeEvent("InstanceHealth", f"instance {node} is {instance.status}", node)


def saved_evidence(job: Job, saved: Saved) -> Evidence:
    """What was kept of a job whose instance has been deleted."""
    facts = saved.facts()
    node = str(facts.get("instance", ""))
    tail = tuple(saved.logs(LogQuery(tail=EVIDENCE_LINES)))
    events = tuple(NodeEvent(str(name), str(message), node) for name, message in facts.get("events", []))
    known = {key: str(value) for key, value in facts.items() if key not in ("events", "status")}
    return Evidence(job.status, (replica(job, job.status, None),), events, tail, facts=known)
