"""The state table, walked whole, and what a job document says of a job."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from tao_run.jobs.model import JobState, JobStatus
from tao_run.platforms.lepton.documents import moment
from tao_run.platforms.lepton.states import NATIVE_STATES, read_status

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
NEVER_SEEN = JobStatus(JobState.PENDING)
EXPECTED = {
    "Queueing": JobState.PENDING,
    "Awaiting": JobState.PENDING,
    "Starting": JobState.PENDING,
    "Running": JobState.RUNNING,
    "PendingRetry": JobState.PENDING,
    "Restarting": JobState.PENDING,
    "Stopping": JobState.RUNNING,
    "Deleting": JobState.RUNNING,
    "Terminating": JobState.RUNNING,
    "Completed": JobState.COMPLETE,
    "Failed": JobState.ERROR,
    "Stopped": JobState.CANCELED,
    "Deleted": JobState.CANCELED,
    "Archived": JobState.UNKNOWN,
    "UNK": JobState.UNKNOWN,
}


def status(native: str | None, last: JobStatus = NEVER_SEEN, spec: Any = None, **counters: Any) -> JobStatus:
    return read_status({"status": {"state": native, **counters}, "spec": spec}, last, NOW)


@pytest.mark.parametrize(("native", "state"), EXPECTED.items())
def test_every_native_state_has_its_meaning(native: str, state: JobState) -> None:
    seen = status(native)
    assert (seen.state, seen.native_state, seen.observed_at) == (state, native, NOW)
    assert seen.state.terminal is (native in ("Completed", "Failed", "Stopped", "Deleted"))


def test_the_table_is_complete_over_the_clients_enumeration() -> None:
    types = pytest.importorskip("leptonai.api.v2.types.job")
    assert {member.value for member in types.LeptonJobState} == set(NATIVE_STATES) == set(EXPECTED)


@pytest.mark.parametrize("native", ["Hibernating", "completed", "FAILED"])
def test_an_unknown_state_is_shown_as_it_is_and_ends_nothing(native: str) -> None:
    seen = status(native)
    assert (seen.state, seen.native_state) == (JobState.UNKNOWN, native)
    assert native in seen.message


@pytest.mark.parametrize("document", [{}, {"status": None}, {"status": {"state": None}, "spec": None}])
def test_a_job_without_a_status_is_pending(document: dict[str, Any]) -> None:
    assert read_status(document, NEVER_SEEN, NOW).state is JobState.PENDING


def test_running_with_too_few_ready_workers_says_so() -> None:
    seen = status("Running", spec={"completions": 2}, ready=1, active=2)
    assert (seen.state, seen.ready, seen.total) == (JobState.RUNNING, 1, 2)
    assert seen.message == "1 of 2 workers ready"
    assert status("Running", spec={"completions": 2}, ready=2, active=2).message == ""


@pytest.mark.parametrize("native", ["Archived", "Deleted"])
def test_counters_tell_how_an_archived_job_ended(native: str) -> None:
    two = {"completions": 2}
    assert status(native, spec=two, succeeded=2).state is JobState.COMPLETE
    assert status(native, spec=two, succeeded=1, failed=1).state is JobState.ERROR
    assert status(native, spec={**two, "stopped": True}).state is JobState.CANCELED


@pytest.mark.parametrize("last", [JobState.COMPLETE, JobState.ERROR, JobState.CANCELED])
def test_without_counters_an_archived_job_ended_as_it_was_last_seen(last: JobState) -> None:
    assert status("Archived", JobStatus(last)).state is last


def test_an_archived_job_that_nothing_is_known_of_is_unknown_not_failed() -> None:
    assert status("Archived", JobStatus(JobState.RUNNING)).state is JobState.UNKNOWN


def test_control_characters_of_a_state_do_not_reach_a_terminal() -> None:
    assert status("\x1b[31mRed").native_state == "[31mRed"


@pytest.mark.parametrize("stamp", [1_760_000_000, 1_760_000_000_000, 1_760_000_000_000_000, 1_760_000_000_000_000_000])
def test_times_are_told_apart_by_size(stamp: int) -> None:
    assert moment(stamp) == datetime.fromtimestamp(1_760_000_000, timezone.utc)


@pytest.mark.parametrize("nothing", [None, 0, -5, "soon"])
def test_a_missing_time_is_none(nothing: object) -> None:
    assert moment(nothing) is None
