"""Every word of the engine has its meaning, and exit codes tell the truth."""

import pytest

from tao_run.jobs.model import JobState
from tao_run.platforms.docker.states import STATES, Ending, exit_status, gone_status, read_events, running_status

ID = "c" * 64
RAN = {"StartedAt": "2026-01-01T00:00:00.5Z", "FinishedAt": "2026-01-01T00:01:00Z"}
# Engine API 1.41, ContainerState.Status, and what Podman's API says besides
DOCKER = ["created", "running", "paused", "restarting", "removing", "exited", "dead"]
PODMAN = ["configured", "initialized", "stopping", "stopped", "unknown"]


@pytest.mark.parametrize("native", DOCKER + PODMAN)
def test_the_table_is_complete(native: str) -> None:
    assert native in STATES
    status = running_status(native) or exit_status({"Status": native, "ExitCode": 0, **RAN})
    assert status.native_state == native
    assert status.total == 1


def test_the_table_holds_nothing_else() -> None:
    assert sorted(STATES) == sorted(DOCKER + PODMAN)


@pytest.mark.parametrize(
    ("native", "state"),
    [
        ("created", JobState.PENDING),
        ("running", JobState.RUNNING),
        ("restarting", JobState.RUNNING),
        ("stopping", JobState.RUNNING),
        ("paused", JobState.PAUSED),
        ("removing", JobState.UNKNOWN),
    ],
)
def test_a_live_container_is_never_terminal(native: str, state: JobState) -> None:
    status = running_status(native)
    assert status is not None
    assert status.state is state
    assert not status.state.terminal


def test_an_unknown_word_is_shown_and_is_no_failure() -> None:
    status = running_status("hibernating")
    assert status is not None
    assert (status.state, status.native_state) == (JobState.UNKNOWN, "hibernating")


@pytest.mark.parametrize(
    ("state", "ending", "expected", "reason"),
    [
        ({"ExitCode": 0}, None, JobState.COMPLETE, "Completed"),
        ({"ExitCode": 1}, None, JobState.ERROR, "ExitCode"),
        ({"ExitCode": 137, "OOMKilled": True}, None, JobState.ERROR, "OOMKilled"),
        ({"ExitCode": 137, "OOMKilled": True}, Ending("9"), JobState.ERROR, "OOMKilled"),
        ({"ExitCode": 0, "OOMKilled": True}, None, JobState.COMPLETE, "Completed"),
        ({"ExitCode": 137}, None, JobState.ERROR, "SIGKILL"),
        ({"ExitCode": 137}, Ending("9"), JobState.CANCELED, "Stopped"),
        ({"ExitCode": 143}, Ending("15"), JobState.CANCELED, "Stopped"),
        ({"ExitCode": 143}, None, JobState.ERROR, "SIGTERM"),
        ({"ExitCode": 1}, Ending("15"), JobState.ERROR, "ExitCode"),
        ({"ExitCode": 139}, None, JobState.ERROR, "SIGSEGV"),
    ],
)
def test_the_end_of_a_process(state: dict[str, object], ending: Ending, expected: JobState, reason: str) -> None:
    status = exit_status({"Status": "exited", **RAN, **state}, ending)
    assert (status.state, status.reason, status.exit_code) == (expected, reason, state["ExitCode"])


def test_a_container_that_could_not_start_says_why() -> None:
    never = {"StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z"}
    status = exit_status({"Status": "created", "ExitCode": 127, "Error": 'exec: "/bin/bash": no such file', **never})
    assert (status.state, status.reason, status.exit_code) == (JobState.ERROR, "StartFailed", 127)
    assert "/bin/bash" in status.message


@pytest.mark.parametrize(("code", "limit", "reason"), [(124, 59, "DeadlineExceeded"), (137, 59, "DeadlineExceeded")])
def test_a_time_limit_is_named(code: int, limit: int, reason: str) -> None:
    assert exit_status({"ExitCode": code, **RAN}, None, limit).reason == reason
    assert exit_status({"ExitCode": code, **RAN}, None, 3600).reason != reason
    assert exit_status({"ExitCode": 1, **RAN}, None, limit).reason == "ExitCode"


def event(action: str, **attributes: str) -> dict[str, object]:
    return {"Action": action, "Actor": {"ID": ID, "Attributes": attributes}}


def test_a_removed_container_ends_as_the_events_tell() -> None:
    finished = read_events([event("die", exitCode="0"), event("destroy")])[ID]
    assert gone_status(finished).state is JobState.COMPLETE
    failed = read_events([event("oom"), event("die", exitCode="137"), event("destroy")])[ID]
    assert gone_status(failed).reason == "OOMKilled"
    removed = read_events([event("kill", signal="9"), event("die", exitCode="137"), event("destroy")])[ID]
    assert (gone_status(removed).state, gone_status(removed).reason) == (JobState.CANCELED, "Removed")
    assert gone_status(Ending()).state is JobState.CANCELED


def test_a_signal_that_ends_nothing_is_no_stop() -> None:
    assert read_events([event("kill", signal="10")])[ID] == Ending()
    assert read_events([event("kill")])[ID] == Ending("9")  # Podman
    assert read_events([event("exec_start: ls"), event("died", containerExitCode="3")])[ID] == Ending(exit_code=3)
