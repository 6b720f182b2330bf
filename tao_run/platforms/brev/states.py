"""Brev's and Docker's words for how things stand, and the state of a job that follows from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tao_run.errors import BackendFault
from tao_run.jobs.model import JobState, JobStatus
from tao_run.platforms.brev import scripts
from tao_run.redact import redact

# Status of an instance (entity.go of brev-cli; UNHEALTHY is how `ls` shows a running one with bad health)
# -> state of a job on it, reason. None: the instance runs, what is in it decides.
INSTANCE_STATES: Mapping[str, tuple[JobState, str] | None] = {
    "RUNNING": None,
    "UNHEALTHY": None,
    "DEPLOYING": (JobState.PENDING, "InstanceBooting"),
    "STARTING": (JobState.PENDING, "InstanceBooting"),
    "STOPPING": (JobState.UNKNOWN, "InstanceStopped"),
    "STOPPED": (JobState.UNKNOWN, "InstanceStopped"),
    "DELETING": (JobState.ERROR, "InstanceDeleted"),
    "FAILURE": (JobState.ERROR, "InstanceFailed"),
}
# Status of a container (docker's State.Status) -> state of its job. None: the exit code decides.
CONTAINER_STATES: Mapping[str, JobState | None] = {
    "created": JobState.PENDING,
    "running": JobState.RUNNING,
    "restarting": JobState.RUNNING,
    "paused": JobState.PAUSED,
    "removing": JobState.UNKNOWN,
    "exited": None,
    "dead": None,
}
# Exit code of the start script -> reason
START_FAILURES: Mapping[int, str] = {
    scripts.CODE_NO_DOCKER: "NoDocker",
    scripts.CODE_NO_GPUS: "NoFreeGpus",
    scripts.CODE_LOGIN: "RegistryLoginFailed",
    scripts.CODE_PULL: "ImagePullFailed",
}
_INSTANCE_WORDS = {
    "InstanceBooting": "the instance is being made ready",
    "InstanceStopped": "the instance is stopped; how the job ended is known once it runs again (`brev start {}`)",
    "InstanceDeleted": "the instance is being deleted, and the job with it",
    "InstanceFailed": "Brev could not make the instance ready",
}


@dataclass(frozen=True)
class Finding:
    """What a probe found of one job: its kind, docker's State if there is a container, else what was said.

    `mark` is `canceled` or `timedout` if that is why it was stopped.
    """

    kind: str
    mark: str = ""
    container: Mapping[str, Any] | None = None
    text: str = ""
    code: int | None = None


def read_probe(text: str) -> dict[str, Finding]:
    """Findings by job name from what `scripts.probe` printed. Raises BackendFault if docker does not answer."""
    found: dict[str, Finding] = {}
    for line in text.splitlines():
        if line == "nodocker":
            raise BackendFault("docker does not answer on the instance")
        fields = line.split("\t", 3)
        if len(fields) == 4:
            found[fields[0]] = _finding(fields[1], fields[2].strip("-"), fields[3])
    return found


def _finding(kind: str, mark: str, data: str) -> Finding:
    if kind == "container":
        return Finding(kind, mark, container=json.loads(data))
    if kind == "failed":
        code, _, said = data.partition(" ")
        return Finding(kind, mark, text=redact(said.strip()), code=int(code) if code.isdecimal() else None)
    return Finding(kind, mark, text=redact(data.strip()))


def instance_status(status: str, name: str) -> JobStatus | None:
    """The status of a job as far as its instance alone decides it; None if one has to look inside."""
    if status not in INSTANCE_STATES:
        return JobStatus(JobState.UNKNOWN, "UnknownInstanceStatus", f"instance {name} is {status}", status)
    known = INSTANCE_STATES[status]
    if known is None:
        return None
    state, reason = known
    return JobStatus(state, reason, f"{name}: {_INSTANCE_WORDS[reason].format(name)}", status)


def job_status(finding: Finding, launching: bool) -> JobStatus:
    """The status of a job from what was found of it. `launching`: its submission is still under way."""
    if finding.container is not None:
        return _container_status(finding.container, finding.mark)
    if finding.mark == "canceled":
        return JobStatus(JobState.CANCELED, "Canceled", "stopped before its container started", finding.kind)
    if finding.kind == "starting":
        return JobStatus(JobState.PENDING, "Starting", _pulling(finding.text), finding.kind)
    if finding.kind == "failed":
        return _start_failure(finding)
    if finding.kind == "absent" and launching:
        return JobStatus(JobState.PENDING, "Starting", "the job is on its way to the instance", finding.kind)
    if finding.kind == "absent":
        text = "the submission was interrupted before the job was started; its instance may still cost money"
        return JobStatus(JobState.ERROR, "NotStarted", text, finding.kind)
    return JobStatus(JobState.ERROR, "StartLost", "the instance was interrupted while it started the job", finding.kind)


def _pulling(said: str) -> str:
    return said or "logging in to the registry, pulling the image"


def _start_failure(finding: Finding) -> JobStatus:
    if finding.code == 0:
        text = "its container was removed from the instance by somebody else"
        return JobStatus(JobState.ERROR, "ContainerRemoved", text, finding.kind)
    reason = START_FAILURES.get(finding.code or 0, "StartFailed")
    native = f"start.sh exit {finding.code}"  # no exit code of the job: its command never ran
    return JobStatus(JobState.ERROR, reason, finding.text[-500:], native)


def _container_status(container: Mapping[str, Any], mark: str) -> JobStatus:
    native = str(container.get("Status") or "")
    state = CONTAINER_STATES.get(native, JobState.UNKNOWN)
    code = int(container.get("ExitCode") or 0)
    said = redact(str(container.get("Error") or ""))
    if native == "created" and mark == "canceled":
        return JobStatus(JobState.CANCELED, "Canceled", "stopped before it ran", native)
    if native == "created" and (said or code):
        return JobStatus(JobState.ERROR, "StartFailed", said, native, code)
    if state is not None:
        return JobStatus(state, "" if state is not JobState.UNKNOWN else "UnknownContainerStatus", said, native)
    return _ended(container, mark, native, code, said)


def _ended(container: Mapping[str, Any], mark: str, native: str, code: int, said: str) -> JobStatus:
    if mark == "canceled":
        return JobStatus(JobState.CANCELED, "Canceled", "", native, code)
    if mark == "timedout":
        return JobStatus(JobState.ERROR, "DeadlineExceeded", "the job ran longer than its max_time", native, code)
    if container.get("OOMKilled"):
        return JobStatus(JobState.ERROR, "OOMKilled", "the container ran out of memory", native, code)
    if code:
        return JobStatus(JobState.ERROR, "ExitCode", said or f"exit code {code}", native, code)
    return JobStatus(JobState.COMPLETE, "", "", native, code)
