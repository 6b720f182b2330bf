"""An instance that is rented for a job: made, used, given back on every way out, and never forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tao_run.errors import BackendRejected, TaoRunError, UsageError
from tao_run.jobs.model import JobState
from tao_run.platforms.brev.fleet import LaunchFailed
from tao_run.platforms.lifecycle import cancel, dry_run
from tests.platforms.brev.conftest import Desk


def test_a_job_gets_its_instance_and_gives_it_back(desk: Desk) -> None:
    desk.cloud.set(boot_polls=2, ssh_failures=3, delete_polls=2)
    job = desk.submit("echo on $NUM_GPU_PER_NODE gpu")
    assert job.backend_id == f"{job.name}/{job.name}"
    ended = desk.wait(job)
    assert ended.status.state is JobState.COMPLETE
    assert desk.cloud.names() == [job.name], "a look at the status deletes nothing"
    assert desk.sdk.settle(ended) == [f"instance {job.name} was deleted"]
    assert desk.cloud.names() == []
    assert desk.sdk.settle(ended) == []
    assert desk.texts(job) == ["on 1 gpu"]


def test_the_type_is_the_cheapest_that_fits_and_is_told(desk: Desk) -> None:
    desk.submit(options={"gpu_type": "L40S"})
    (call,) = desk.cloud.calls("create")
    assert call["argv"][2:] == ["--type", "massedcompute_L40S", "--detached"]
    assert any("massedcompute_L40S (1 x L40S 48 GB, shadeform, $0.88 an hour)" in note for note in desk.notes)
    desk.submit(options={"gpu_type": "L40S", "provider": "aws", "min_vram": 40})
    assert desk.cloud.calls("create")[-1]["argv"][3] == "g6e.xlarge"


def test_no_type_with_that_many_gpus(desk: Desk) -> None:
    with pytest.raises(BackendRejected, match="L40S has 2 GPUs"):
        desk.submit(gpus=2)
    assert desk.cloud.calls("create") == [] and desk.store.recent() == []


def test_no_capacity_is_said_and_nothing_is_left(desk: Desk) -> None:
    desk.cloud.set(no_capacity=["massedcompute_L40S"])
    with pytest.raises(BackendRejected, match="did not make an instance of type massedcompute_L40S") as caught:
        desk.submit()
    assert "other types" in caught.value.hint
    (job,) = desk.store.recent()
    assert (job.status.state, job.status.reason) == (JobState.ERROR, "SubmitRefused")


@pytest.mark.parametrize("polls", [10**6, 0])
def test_an_instance_that_never_gets_ready_is_deleted(desk: Desk, polls: int) -> None:
    desk.cloud.set(boot_polls=polls, ssh_failures=10**6)
    with pytest.raises(LaunchFailed, match="not ready within 300 s"):
        desk.submit(options={"boot_timeout": "5m"})
    assert desk.cloud.names() == []
    assert desk.store.recent()[0].status.state is JobState.ERROR


def test_an_instance_that_fails_to_boot_is_deleted(desk: Desk) -> None:
    job = desk.build()
    desk.cloud.add(job.name, "massedcompute_L40S", status="FAILURE")
    sdk = desk.sdk
    with pytest.raises(LaunchFailed, match="FAILURE"):
        sdk.launch(sdk.prepare(job))
    assert desk.cloud.names() == []


def test_a_lost_answer_of_create_adopts_the_instance(desk: Desk) -> None:
    desk.cloud.fail("create", "lost_reply")
    job = desk.submit()
    assert desk.wait(job).status.state is JobState.COMPLETE
    assert desk.cloud.names() == [job.name] and len(desk.cloud.calls("create")) == 1


def test_a_copy_that_fails_three_times_gives_the_instance_back(desk: Desk) -> None:
    desk.cloud.fail("scp", "refused", times=3)
    with pytest.raises(TaoRunError, match="nothing is left"):
        desk.submit()
    assert desk.cloud.names() == []


def test_what_cannot_be_deleted_is_named_with_the_command(desk: Desk) -> None:
    desk.cloud.fail("scp", "refused", times=3)
    desk.cloud.fail("delete", "network")
    job = desk.submit()
    assert any(f"tao-run instances delete {job.name}" in note and "cost money" in note for note in desk.notes)
    desk.clock.ahead += 60
    seen = desk.look(job)
    assert (seen.status.state, seen.status.reason) == (JobState.ERROR, "NotStarted")
    assert desk.sdk.settle(seen)[-1] == f"instance {job.name} was deleted"


@pytest.mark.parametrize("command", ["exit 3", "sleep 60"])
def test_error_and_cancel_give_it_back_too(desk: Desk, command: str) -> None:
    job = desk.submit(f"echo before; {command}")
    if command == "sleep 60":
        desk.running(job)
        ended = cancel(desk.sdk, desk.store, desk.store.get(job.id))
        assert ended.status.state is JobState.CANCELED
        assert f"instance {job.name} was deleted" in desk.notes
    else:
        ended = desk.wait(job)
        assert (ended.status.state, ended.status.exit_code) == (JobState.ERROR, 3)
        desk.sdk.settle(ended)
    assert desk.cloud.names() == []
    assert desk.texts(job) == ["before"]
    evidence = desk.sdk.evidence(desk.store.get(job.id))
    assert [line.text for line in evidence.log_tail] == ["before"]
    assert evidence.facts["instance_status"] == "deleted"


def test_cancel_while_it_boots_deletes_it(desk: Desk) -> None:
    job = desk.submit()
    desk.cloud.change(job.name, status="DEPLOYING", boot_polls=10**6)
    assert cancel(desk.sdk, desk.store, desk.store.get(job.id)).status.state is JobState.CANCELED
    assert desk.cloud.names() == []


def test_a_killed_cancel_leaves_the_truth(desk: Desk) -> None:
    """The instance is gone, and the record had not heard of the end."""
    job = desk.submit("sleep 60")
    desk.running(job)
    assert desk.sdk.cancel(desk.store.get(job.id)).state is JobState.CANCELED
    assert desk.store.get(job.id).status.state is JobState.RUNNING
    assert desk.look(job).status.state is JobState.CANCELED


def test_keep_instance_keeps_it_and_says_what_it_costs(desk: Desk) -> None:
    job = desk.submit(options={"keep_instance": True})
    ended = desk.wait(job)
    (note,) = desk.sdk.settle(ended)
    assert "costs money" in note and f"tao-run instances delete {job.name}" in note
    assert desk.cloud.names() == [job.name]
    (line,) = desk.sdk.leftovers()
    assert job.name in line and "has ended (Complete)" in line


def test_leftovers_have_an_age_and_a_command(desk: Desk) -> None:
    job = desk.wait(desk.submit())
    desk.cloud.add("my-own-box")
    desk.cloud.add("train-0123456789abcdef", "g5.xlarge")
    desk.clock.ahead += 3 * 3600 + 120
    lines = desk.sdk.leftovers()
    assert len(lines) == 2
    assert f"instance {job.name} (massedcompute_L40S, 3 h 2 min old) costs money" in lines[0]
    assert lines[0].endswith(f"tao-run instances delete {job.name}")
    assert "of unknown age" in lines[1] and "no record" in lines[1]
    rows = {row["name"]: row for row in desk.sdk.list_instances()}
    assert rows[job.name]["job"] == job.id and rows["my-own-box"]["rented"] is False


def test_a_running_job_is_no_leftover(desk: Desk) -> None:
    job = desk.submit("sleep 30")
    desk.running(job)
    assert desk.sdk.leftovers() == []


def test_leftovers_that_cannot_be_listed_are_said_to_be_unknown(desk: Desk) -> None:
    desk.cloud.fail("ls", "network")
    (line,) = desk.sdk.leftovers()
    assert "not known" in line and "no such host" in line


def test_a_settlement_that_fails_names_the_instance(desk: Desk) -> None:
    job = desk.wait(desk.submit())
    desk.cloud.fail("delete", "server")
    (note,) = desk.sdk.settle(job)
    assert "is left and costs money" in note and f"tao-run instances delete {job.name}" in note
    assert desk.sdk.settle(job) == [f"instance {job.name} was deleted"]


_KILLED = """
import sys
from tests.platforms.brev.killed import main
main(sys.argv[1])
"""


def test_kill_between_create_and_record_is_named_by_the_next_command(desk: Desk, tmp_path: Path) -> None:
    """The process that submits dies with the instance made and nothing else done."""
    desk.cloud.set(boot_polls=10**6)
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(desk.store.directory)],
        cwd=Path(__file__).parents[3], env={**os.environ, **desk.values},
    )  # fmt: skip
    while not desk.cloud.names():
        assert process.poll() is None, "it ended before it made an instance"
    process.send_signal(signal.SIGKILL)
    process.wait()
    (job,) = desk.store.recent()
    assert job.backend_id is None and desk.cloud.names() == [job.name]
    desk.clock.ahead += 60
    (line,) = desk.sdk.leftovers()
    assert job.name in line and "interrupted" in line and "instances delete" in line
    desk.cloud.change(job.name, status="RUNNING")
    seen = desk.look(job)
    assert (seen.status.state, seen.status.reason) == (JobState.ERROR, "NotStarted")
    assert desk.sdk.settle(seen) == [f"instance {job.name} was deleted"]
    assert desk.cloud.names() == []


def test_an_instance_deleted_by_somebody_else(desk: Desk) -> None:
    job = desk.submit("sleep 30")
    desk.running(job)
    desk.cloud.vanish(job.name)
    seen = desk.look(job).status
    assert (seen.state, seen.reason) == (JobState.ERROR, "InstanceGone")


def test_dry_run_shows_everything_and_creates_nothing(desk: Desk) -> None:
    request = desk.build("echo 'quoted $X'", secrets={"HF_TOKEN": "HF_TOKEN"}).request
    native = dry_run(desk.sdk, request).native
    assert native["rented"].startswith("massedcompute_L40S") and native["deleted_at_end"] is True
    assert "docker run -d" in native["start.sh"].replace('"$docker"', "docker")
    assert native["secrets"] == {"HF_TOKEN": "credential HF_TOKEN"}
    assert desk.cloud.names() == [] and [call["argv"][0] for call in desk.cloud.calls()] == ["search"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"nodes": 2}, "nodes must be 1"),
        ({"options": {"gpu_type": None}}, "-o gpu_type=L40S"),
        ({"inputs": {"/data": "/home/me/data"}}, "use s3://"),
        ({"results": "/results"}, "use s3://"),
        ({"mount": "nfs"}, "no shared mount"),
        ({"gpus": 0}, "--gpus must be 1 or more"),
        ({"image": None}, "an image is needed"),
        ({"options": {"gpu_type": None, "instance": "--all"}}, "String should match pattern"),
        ({"options": {"instance": "box"}}, "instance names an existing one"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(desk: Desk, more: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        desk.submit(**more)
    assert desk.cloud.calls() == [] and desk.store.recent() == []
