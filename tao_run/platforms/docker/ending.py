"""The end of a job: stopped and verified, and what is left to learn from."""

from __future__ import annotations

from dataclasses import replace

from tao_run.errors import BackendRejected, Conflict, NotFound
from tao_run.jobs.model import Job, JobState, JobStatus, LogLine, LogQuery
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.launch import remove
from tao_run.platforms.docker.logs import ContainerLog
from tao_run.platforms.docker.observe import status_of
from tao_run.redact import redact

_EVIDENCE_LINES = 2000
_VERIFY_SECONDS = 10.0


def stop(daemon: Daemon, job: Job, container: str, seconds: int) -> JobStatus:
    """Ask the container to end, kill it after `seconds`, and look. One that had ended stays as it ended."""
    status = status_of(daemon, job)
    if status.state.terminal:
        return status
    if status.native_state == "created":
        remove(daemon, container)
        return JobStatus(JobState.CANCELED, "Canceled", "canceled before it started", "created", ready=0, total=1)
    _send_stop(daemon, container, status.native_state == "paused", seconds)
    return _verified(daemon, job)


def _send_stop(daemon: Daemon, container: str, frozen: bool, seconds: int) -> None:
    try:
        with daemon.translated():
            if frozen:  # a frozen process cannot hear the signal
                daemon.api.unpause(container)
            daemon.api.stop(container, timeout=seconds)
    except (NotFound, Conflict):
        return


def _verified(daemon: Daemon, job: Job) -> JobStatus:
    give_up = daemon.clock.monotonic() + _VERIFY_SECONDS
    while True:
        status = status_of(daemon, job)
        if status.state.terminal:
            return _canceled(status)
        if daemon.clock.monotonic() > give_up:
            return replace(status, reason="StillRunning", message="the engine was asked to stop it, and it still runs")
        daemon.clock.sleep(0.2)


def _canceled(status: JobStatus) -> JobStatus:
    """What ended by our stop was canceled. A job that had just completed by itself stays complete."""
    if status.state is JobState.COMPLETE:
        return status
    return replace(status, state=JobState.CANCELED, reason="Canceled", message="stopped on request")


def last_lines(daemon: Daemon, container: str, name: str) -> list[LogLine]:
    """The end of the log; empty if the container is gone, or the engine keeps no log."""
    try:
        return list(ContainerLog(daemon, container, name).read(LogQuery(tail=_EVIDENCE_LINES)))
    except BackendRejected:
        return []


def facts(daemon: Daemon, container: str) -> dict[str, str]:
    """What inspect tells of a container, as text. Its variables are left out."""
    try:
        with daemon.translated():
            made = daemon.api.inspect_container(container)
    except NotFound:
        return {"container": "removed"}
    state, host = made["State"], made["HostConfig"]
    told = {
        "container": str(made["Id"])[:12],
        "image": str(made["Config"].get("Image") or ""),
        "image_id": str(made.get("Image") or ""),
        "started_at": str(state.get("StartedAt") or ""),
        "finished_at": str(state.get("FinishedAt") or ""),
        "oom_killed": str(bool(state.get("OOMKilled"))).lower(),
        "engine_error": redact(str(state.get("Error") or "")),
        "memory_limit": str(host.get("Memory") or ""),
        "shm_size": str(host.get("ShmSize") or ""),
        "node": str(daemon.info.get("Name") or ""),
    }
    return {name: value for name, value in told.items() if value}
