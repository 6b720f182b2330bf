"""Every word of Brev and of Docker for how things stand has a state, and the probe's lines become findings."""

from __future__ import annotations

import json

import pytest

from tao_run.errors import BackendFault
from tao_run.jobs.model import JobState
from tao_run.platforms.brev.states import (
    CONTAINER_STATES,
    INSTANCE_STATES,
    Finding,
    instance_status,
    job_status,
    read_probe,
)


def container(status: str, mark: str = "", **fields: object) -> Finding:
    return Finding("container", mark, {"Status": status, "ExitCode": 0, "Error": "", **fields})


@pytest.mark.parametrize("word", INSTANCE_STATES)
def test_every_instance_status(word: str) -> None:
    seen = instance_status(word, "box")
    if INSTANCE_STATES[word] is None:
        assert seen is None
    else:
        assert seen is not None and (seen.state, seen.reason) == INSTANCE_STATES[word]
        assert seen.native_state == word and "box" in seen.message


def test_an_instance_status_nobody_knows_is_no_failure() -> None:
    seen = instance_status("HIBERNATING", "box")
    assert seen is not None and seen.state is JobState.UNKNOWN and "HIBERNATING" in seen.message


@pytest.mark.parametrize("word", CONTAINER_STATES)
def test_every_container_status(word: str) -> None:
    expected = CONTAINER_STATES[word] or JobState.COMPLETE
    seen = job_status(container(word), launching=False)
    assert seen.state is expected and seen.native_state == word


def test_a_container_status_nobody_knows_is_no_failure() -> None:
    assert job_status(container("hovering"), launching=False).state is JobState.UNKNOWN


@pytest.mark.parametrize(
    ("finding", "state", "reason"),
    [
        (container("exited", ExitCode=3), JobState.ERROR, "ExitCode"),
        (container("exited", ExitCode=137, OOMKilled=True), JobState.ERROR, "OOMKilled"),
        (container("exited", "canceled", ExitCode=143), JobState.CANCELED, "Canceled"),
        (container("exited", "timedout", ExitCode=143), JobState.ERROR, "DeadlineExceeded"),
        (container("created", ExitCode=127, Error="no such file"), JobState.ERROR, "StartFailed"),
        (container("created", "canceled"), JobState.CANCELED, "Canceled"),
        (Finding("failed", text="manifest unknown", code=93), JobState.ERROR, "ImagePullFailed"),
        (Finding("failed", text="unauthorized", code=92), JobState.ERROR, "RegistryLoginFailed"),
        (Finding("failed", text="2 GPUs are asked for", code=91), JobState.ERROR, "NoFreeGpus"),
        (Finding("failed", code=0), JobState.ERROR, "ContainerRemoved"),
        (Finding("failed", "canceled", code=143), JobState.CANCELED, "Canceled"),
        (Finding("failed", text="?", code=125), JobState.ERROR, "StartFailed"),
        (Finding("starting", text="pulling x"), JobState.PENDING, "Starting"),
        (Finding("lost"), JobState.ERROR, "StartLost"),
        (Finding("absent"), JobState.ERROR, "NotStarted"),
    ],
)
def test_what_a_finding_means(finding: Finding, state: JobState, reason: str) -> None:
    seen = job_status(finding, launching=False)
    assert (seen.state, seen.reason) == (state, reason)


def test_a_job_on_its_way_is_pending() -> None:
    assert job_status(Finding("absent"), launching=True).state is JobState.PENDING


def test_reading_a_probe() -> None:
    state = json.dumps({"Status": "running"})
    found = read_probe(f"a\tcontainer\t-\t{state}\nb\tfailed\tcanceled\t93 no\tsuch image\nnoise\nc\tabsent\t-\t\n")
    assert found["a"].container == {"Status": "running"} and found["a"].mark == ""
    assert (found["b"].code, found["b"].mark, found["b"].text) == (93, "canceled", "no\tsuch image")
    assert found["c"].kind == "absent" and "noise" not in found


def test_a_docker_that_does_not_answer_is_no_state() -> None:
    with pytest.raises(BackendFault, match="docker does not answer"):
        read_probe("nodocker\n")
