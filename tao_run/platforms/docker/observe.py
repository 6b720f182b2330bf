"""What became of jobs: one listing for all of them, a closer look only at those that ended or are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import Any

from tao_run.errors import NotFound
from tao_run.jobs.model import Job, JobState, JobStatus, NodeEvent
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.create import LABEL_ID
from tao_run.platforms.docker.launch import START_GRACE, UNSTARTED, list_containers
from tao_run.platforms.docker.states import STOP_CODES, Ending, exit_status, gone_status, read_events, running_status

_CLOCK_SLACK = 3600.0  # seconds that this machine's clock and the daemon's may differ
_DEAD_GRACE = 60.0  # seconds that the engine may take for a start whose caller died
NEVER_LAUNCHED = "NeverLaunched"
_NEVER = JobStatus(
    JobState.ERROR,
    NEVER_LAUNCHED,
    "the submission was interrupted before the container was started; nothing runs",
    "created",
    ready=0,
    total=1,
)


def poll(
    daemon: Daemon, jobs: Sequence[Job], launcher_died: Callable[[Job], bool] = lambda job: False
) -> dict[str, JobStatus]:
    """The status of every job given, by job id. `launcher_died` tells whether nobody will start a created one."""
    listed = list_containers(daemon, LABEL_ID)
    found = {str(one["Labels"][LABEL_ID]): one for one in listed}
    ended: dict[str, dict[str, Any] | None] = {}
    seen: dict[str, JobStatus] = {}
    for job in jobs:
        status = _live(daemon, found.get(job.id), partial(launcher_died, job))
        if status is None:
            ended[job.id] = _inspect(daemon, found.get(job.id))
        else:
            seen[job.id] = status
    return seen | _ends(daemon, {job.id: job for job in jobs}, ended)


def _live(daemon: Daemon, container: Mapping[str, Any] | None, abandoned: Callable[[], bool]) -> JobStatus | None:
    """The status of a container that has not ended, from the listing alone; None: look closer."""
    if container is None:
        return None
    status = running_status(str(container.get("State") or "unknown"))
    if status is not None and status.native_state == "created":
        return _unstarted(daemon, container, status, abandoned)
    return status


def _unstarted(
    daemon: Daemon, container: Mapping[str, Any], status: JobStatus, abandoned: Callable[[], bool]
) -> JobStatus | None:
    made = _inspect(daemon, container)
    if made is None or made["State"].get("Error"):
        return None
    age = daemon.now().timestamp() - float(container.get("Created") or 0)
    over = age > START_GRACE or (age > _DEAD_GRACE and abandoned())
    return _NEVER if over and made["State"].get("Status") in UNSTARTED else status


def _inspect(daemon: Daemon, container: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if container is None:
        return None
    try:
        with daemon.translated():
            return dict(daemon.api.inspect_container(container["Id"]))
    except NotFound:  # removed since it was listed
        return None


def _ends(
    daemon: Daemon, jobs: Mapping[str, Job], ended: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, JobStatus]:
    unclear = [key for key, made in ended.items() if made is None or made["State"].get("ExitCode") in STOP_CODES]
    endings = read_events(container_events(daemon, [jobs[key] for key in unclear])) if unclear else {}
    return {
        key: gone_status(endings.get(jobs[key].backend_id or "", Ending()))
        if made is None
        else exit_status(made["State"], endings.get(str(made["Id"])), jobs[key].request.max_time)
        for key, made in ended.items()
    }


def status_of(daemon: Daemon, job: Job) -> JobStatus:
    """The status of one job."""
    return poll(daemon, [job])[job.id]


def container_events(daemon: Daemon, jobs: Sequence[Job], container: str | None = None) -> Iterable[dict[str, Any]]:
    """What the engine remembers of containers since these jobs were made, oldest first.

    Docker keeps the last 256 events, and in memory only; Podman keeps all (and knows no filter by label).
    """
    wanted = {"type": ["container"], **({"container": [container]} if container else {})}
    since = int(min(job.created_at.timestamp() for job in jobs) - _CLOCK_SLACK)
    until = int(daemon.now().timestamp()) + 1
    with daemon.translated():
        return list(daemon.api.events(since=since, until=until, filters=wanted, decode=True))


# -- evidence --------------------------------------------------------------------------------------------------

_TOLD = {
    "oom": ("OOMKilled", "the kernel killed a process: the container's memory limit was reached", True),
    "kill": ("Killed", "somebody sent signal {signal}", True),
    "die": ("Died", "the process ended with exit code {exitCode}", False),
    "destroy": ("Removed", "the container was removed", True),
    "pause": ("Paused", "the container was frozen", False),
    "unpause": ("Unpaused", "the container goes on", False),
    "start": ("Started", "the container was started", False),
}


def node_events(daemon: Daemon, job: Job, container: str) -> tuple[NodeEvent, ...]:
    """The engine's events of a container as the analysis reads them."""
    if not container:
        return ()
    node = str(daemon.info.get("Name") or "")
    events = [_node_event(event, node) for event in container_events(daemon, [job], container)]
    return tuple(event for event in events if event is not None)


def _node_event(event: Mapping[str, Any], node: str) -> NodeEvent | None:
    told = _TOLD.get(str(event.get("Action")))
    if told is None:
        return None
    name, text, warning = told
    attributes = event.get("Actor", {}).get("Attributes") or {}
    code = attributes.get("exitCode", "")
    message = text.format_map({"signal": attributes.get("signal", "?"), "exitCode": code})
    when = datetime.fromtimestamp(int(event.get("time") or 0), timezone.utc)
    return NodeEvent(name, message, node, when, warning or (name == "Died" and code != "0"))
