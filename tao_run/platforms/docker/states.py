"""What Docker says of a container -> what that means for the job. One table, complete over the engine's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tao_run.jobs.model import JobState, JobStatus
from tao_run.platforms.stamps import NANOSECONDS, parse_stamp
from tao_run.redact import redact

# Engine API, ContainerState.Status: the first seven. Podman's API adds the others (libpod/define/containerstate.go).
# None: the process is over, its exit code decides.
STATES: dict[str, JobState | None] = {
    "created": JobState.PENDING,
    "running": JobState.RUNNING,
    "paused": JobState.PAUSED,
    "restarting": JobState.RUNNING,
    "removing": JobState.UNKNOWN,
    "exited": None,
    "dead": None,
    "configured": JobState.PENDING,
    "initialized": JobState.PENDING,
    "stopping": JobState.RUNNING,
    "stopped": None,
    "unknown": JobState.UNKNOWN,
}
_WHY = {
    "created": ("Created", "the container is created and about to start"),
    "configured": ("Created", "the container is created and about to start"),
    "initialized": ("Created", "the container is created and about to start"),
    "paused": ("Paused", "the container is frozen: `docker unpause` lets it go on"),
    "restarting": ("Restarting", "the engine is starting the container again"),
    "removing": ("Removing", "the container is being removed; how it ended is looked up once it is gone"),
    "stopping": ("Stopping", "the container was asked to stop"),
}
# Exit codes that mean "ended by a signal": 128+n for INT, ABRT, KILL, SEGV, TERM
_SIGNALS = {130: "SIGINT", 134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
_START_LAG = 5.0  # seconds by which the engine may note the start later than it was
_LIMIT_CODES = frozenset({124, 137, 143})  # what `timeout -k` ends with (busybox: 143)
_ENDING_SIGNALS = frozenset({"1", "2", "3", "9", "15"})
#: exit codes after which somebody's `docker stop` or `docker kill` is worth looking for
STOP_CODES = frozenset({130, 137, 143})


@dataclass(frozen=True)
class Ending:
    """What the engine's event log says of one container. None: nothing (the log is short and not kept on disk)."""

    killed: str | None = None
    exit_code: int | None = None
    oom: bool = False


def running_status(native: str) -> JobStatus | None:
    """The status of a container whose process is not over; None if its exit code decides.

    A word that is not known is shown as it is: not terminal, and no failure.
    """
    state = STATES.get(native, JobState.UNKNOWN)
    if state is None:
        return None
    reason, message = _WHY.get(native, ("", ""))
    live = int(state is JobState.RUNNING)
    return JobStatus(state, reason, message, native_state=native, ready=live, total=1)


def exit_status(state: Mapping[str, Any], ending: Ending | None = None, limit: int | None = None) -> JobStatus:
    """The status of a container whose process is over, from inspect's `State` and the events, if any.

    `limit` is the time limit of the job in seconds.
    """
    native, code = str(state.get("Status") or "exited"), int(state.get("ExitCode") or 0)
    ran = _seconds(state)
    if ran is None and state.get("Error"):
        message = redact(str(state["Error"]))
        return JobStatus(JobState.ERROR, "StartFailed", message, native, code, ready=0, total=1)
    if limit and code in _LIMIT_CODES and (ran or 0) >= limit - min(_START_LAG, limit / 2):
        message = f"the time limit of {limit} s was reached and the job was ended"
        return JobStatus(JobState.ERROR, "DeadlineExceeded", message, native, code, ready=0, total=1)
    return _ended(code, native, replace(ending or Ending(), oom=bool(state.get("OOMKilled"))))


def _seconds(state: Mapping[str, Any]) -> float | None:
    """How long the process ran, or None if it never started."""
    began, ended = (parse_stamp(f"{state.get(key)} ".encode()) for key in ("StartedAt", "FinishedAt"))
    if began is None or ended is None or str(state.get("StartedAt")).startswith("0001"):
        return None
    return (ended[0] - began[0]) / NANOSECONDS


def _ended(code: int, native: str, ending: Ending) -> JobStatus:
    state, reason, message = _meaning(code, ending)
    return JobStatus(state, reason, message, native, code, ready=0, total=1)


def _meaning(code: int, ending: Ending) -> tuple[JobState, str, str]:
    if code == 0:
        return JobState.COMPLETE, "Completed", ""
    if ending.oom:
        return JobState.ERROR, "OOMKilled", "the container used more memory than its limit and was killed"
    if ending.killed and code in STOP_CODES:
        return JobState.CANCELED, "Stopped", f"stopped from outside tao-run (signal {ending.killed})"
    if code == 137:
        return (
            JobState.ERROR,
            "SIGKILL",
            "killed, and not by a stop seen here: the host's memory, or the engine's restart",
        )
    if code in _SIGNALS:
        return JobState.ERROR, _SIGNALS[code], f"the command was ended by signal {code - 128} ({_SIGNALS[code]})"
    return JobState.ERROR, "ExitCode", f"the command exited with {code}"


def gone_status(ending: Ending) -> JobStatus:
    """The status of a container that is not there any more, from what the events tell of its end."""
    by_removal = ending.killed or (ending.exit_code in STOP_CODES and not ending.oom)  # Podman tells of no kill here
    if ending.exit_code is not None and not by_removal:
        return _ended(ending.exit_code, "removed", ending)
    return JobStatus(
        JobState.CANCELED,
        "Removed",
        "the container was removed by somebody else; its log went with it",
        "removed",
        ending.exit_code,
        ready=0,
        total=1,
    )


def read_events(events: Iterable[Mapping[str, Any]]) -> dict[str, Ending]:
    """What the engine's events (GET /events, type container) tell of each container, by container id."""
    found: dict[str, Ending] = {}
    for event in events:
        actor = event.get("Actor") or {}
        key = str(actor.get("ID") or "")
        found[key] = _told(found.get(key, Ending()), str(event.get("Action")), actor.get("Attributes") or {})
    return found


def _told(before: Ending, action: str, told: Mapping[str, Any]) -> Ending:
    if action == "kill" and str(told.get("signal", "9")) in _ENDING_SIGNALS:  # Podman does not say which
        return replace(before, killed=str(told.get("signal", "9")))
    if action == "stop" and not before.killed:
        return replace(before, killed="15")
    if action == "oom":
        return replace(before, oom=True)
    if action in ("die", "died"):
        code = told.get("exitCode", told.get("containerExitCode"))
        return replace(before, exit_code=before.exit_code if code is None else int(code))
    return before
