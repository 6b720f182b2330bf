"""What the supervisor of a local job survives, and what it leaves behind: nothing that runs, and the truth."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.errors import UsageError
from tao_run.jobs.model import Job, JobState, LogLine, LogQuery
from tao_run.jobs.store import Store
from tao_run.platforms.local import LocalSDK
from tao_run.platforms.local.gpus import find_gpus
from tao_run.platforms.local.jobdir import JobDir
from tao_run.platforms.local.logs import TimeIndex
from tao_run.platforms.local.processes import signal_process
from tests.cli.harness import CommandLine


@pytest.fixture
def sdk(tmp_path: Path) -> LocalSDK:
    return LocalSDK(store=Store(tmp_path / "state"), credentials=Credentials({}))


def start(sdk: LocalSDK, command: str, **more: Any) -> Job:
    job: Job = sdk.create_job(command=command, gpu_count=0, **more)
    return job


def directory(sdk: LocalSDK, job: Job) -> JobDir:
    return JobDir(sdk.store.directory / "local" / job.id)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "it did not happen within 20 s"
        time.sleep(0.05)


def logged(sdk: LocalSDK, job: Job) -> list[str]:
    return str(sdk.get_job_logs(job.id)).splitlines()


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return ") Z " not in Path(f"/proc/{pid}/stat").read_text()


def test_a_daemon_left_behind_is_asked_to_end_and_costs_no_grace(sdk: LocalSDK, tmp_path: Path) -> None:
    asked, ready = tmp_path / "asked", tmp_path / "ready"
    daemon = f"trap 'echo yes > {asked}; exit' TERM; touch {ready}; sleep 1000 & wait"
    job = start(sdk, f'setsid bash -c "{daemon}" & until test -e {ready}; do sleep 0.1; done')
    assert sdk.wait(job.id, interval=0.2).state is JobState.COMPLETE
    assert asked.read_text() == "yes\n"


@pytest.mark.parametrize("first", [0, 1])
def test_the_rank_that_failed_first_gives_the_exit_code(sdk: LocalSDK, first: int) -> None:
    job = start(sdk, f"if [ $NODE_RANK = {first} ]; then exit 3; else exec sleep 100; fi", num_nodes=2)
    status = sdk.wait(job.id, interval=0.2)
    assert (status.state, status.exit_code, status.message) == (JobState.ERROR, 3, "the command exited with 3")


@pytest.mark.parametrize(
    ("command", "said"),
    [("exit 255", "the command exited with 255"), ("kill -9 $$", "the command was ended by signal 9")],
)
def test_only_signals_are_called_signals(sdk: LocalSDK, command: str, said: str) -> None:
    assert sdk.wait(start(sdk, command).id, interval=0.2).message == said


def test_a_log_that_is_deleted_ends_no_job(sdk: LocalSDK) -> None:
    job = start(sdk, "sleep 1.5")
    until(directory(sdk, job).log(0).exists)
    directory(sdk, job).log(0).unlink()
    assert sdk.wait(job.id, interval=0.2).state is JobState.COMPLETE


def test_ranks_that_cannot_all_start_are_ended(sdk: LocalSDK, tmp_path: Path) -> None:
    """The working directory disappears under the second rank: the first may not run on for ever."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    job = start(sdk, f"echo $$; rmdir {folder} 2>/dev/null; exec sleep 100", num_nodes=40, cwd=str(folder))
    status = sdk.wait(job.id, interval=0.2)
    assert (status.state, status.reason) == (JobState.ERROR, "StartFailed")
    assert not any(runs(int(line)) for line in logged(sdk, job) if line.isdecimal())


def orphan(sdk: LocalSDK) -> tuple[Job, list[int]]:
    """A job whose supervisor was killed, and the pids of its rank and of a process that left the rank's session."""
    job = start(sdk, "setsid bash -c 'echo $$; exec sleep 100' & echo $$; wait")
    until(lambda: len(logged(sdk, job)) == 2)
    os.kill(directory(sdk, job).supervisor() or 0, signal.SIGKILL)
    until(lambda: directory(sdk, job).supervisor() is None)
    return job, [int(line) for line in logged(sdk, job)]


def test_a_job_without_its_supervisor_runs_and_can_be_canceled(sdk: LocalSDK) -> None:
    job, pids = orphan(sdk)
    status = sdk.get_job_status(job.id)
    assert (status.state, status.reason) == (JobState.RUNNING, "SupervisorLost")
    assert sdk.cancel_job(job.id)
    assert sdk.get_job(job.id).status.state is JobState.CANCELED
    until(lambda: not any(map(runs, pids)))


def test_a_restart_of_the_machine_is_seen(sdk: LocalSDK) -> None:
    job, pids = orphan(sdk)
    for pid in (*pids, *directory(sdk, job).living_ranks()):
        signal_process(pid, signal.SIGKILL)
    until(lambda: not directory(sdk, job).alive())
    claim = directory(sdk, job).claim
    claim.write_text(f"{os.getpid()} 1@another-boot")  # the pid lives, but it is somebody else's
    status = sdk.get_job_status(job.id)
    assert (status.state, status.reason) == (JobState.ERROR, "ProcessLost")


def test_a_job_that_is_being_claimed_is_not_lost(sdk: LocalSDK, tmp_path: Path) -> None:
    """Another command line looks between the first and the last instruction of claiming."""
    claimed = JobDir(tmp_path)
    assert claimed.take()
    assert not claimed.take()
    assert claimed.supervisor() == os.getpid()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["claim"]


def test_a_deleted_job_stays_deleted(sdk: LocalSDK) -> None:
    tao = CommandLine(sdk.store.directory)
    job = start(sdk, "echo hello; exit 3")
    sdk.wait(job.id, interval=0.2)
    for _ in range(2):
        assert tao("cancel", job.id, "--delete").code == 0
    assert sdk.get_job(job.id).status.exit_code == 3
    assert "deleted" in tao("logs", job.id).err
    assert tao("logs", job.id, "--follow").code == 0


def test_jobs_wait_for_gpus_and_none_is_given_twice(tmp_path: Path) -> None:
    tao = CommandLine(tmp_path / "state", {"TAO_RUN_LOCAL_GPUS": "0,1,2"})
    take = "for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do mkdir gpu.$gpu || exit 9; done"
    claim = f"{take}; sleep 0.2; rmdir gpu.*[$CUDA_VISIBLE_DEVICES]"

    def one(number: int) -> int:
        wanted = ["--gpus", str(number % 3 + 1), "-o", f"cwd={tmp_path}", "-c", claim]
        child = tao.start("submit", "--platform", "local", "--no-preflight", "--detach", *wanted)
        child.communicate(timeout=60)
        return child.returncode

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(one, range(12))) == {0}
    assert tao("watch", "--all", "--interval", "0.01").code == 0
    rows = tao("--format", "json", "status", "--all").json["jobs"]
    assert [row["state"] for row in rows] == ["Complete"] * 12


def test_a_job_that_waits_for_gpus_can_be_canceled(tmp_path: Path) -> None:
    tao = CommandLine(tmp_path / "state", {"TAO_RUN_LOCAL_GPUS": "0"})
    # the adapter reads the GPUs of its own process: a process of its own for each command line
    run = ("submit", "--platform", "local", "--no-preflight", "--detach", "--gpus", "1", "--", "sleep", "100")
    first, second = tao.process(*run).out.strip(), tao.process(*run).out.strip()
    until(lambda: tao("--format", "json", "status", second).json["jobs"][0]["reason"] == "Resources")
    assert tao("cancel", second).code == 0
    assert tao("--format", "json", "status", second).json["jobs"][0]["state"] == "Canceled"
    assert tao("cancel", first).code == 0


def test_a_gpu_named_twice_is_one_gpu(sdk: LocalSDK, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"TAO_RUN_LOCAL_GPUS": "0,1,1,0"}
    assert [gpu.index for gpu in find_gpus(environ)] == ["0", "1"]
    monkeypatch.setenv("TAO_RUN_LOCAL_GPUS", "0,1")
    with pytest.raises(UsageError, match="2 GPUs asked for"):
        sdk.create_job(command="true", gpu_count=2, gpu_ids="0,0")


def test_a_clock_set_back_disturbs_neither_order_nor_times(sdk: LocalSDK, tmp_path: Path) -> None:
    first, last = start(sdk, "true"), start(sdk, "true")
    with sqlite3.connect(sdk.store.path) as db:
        db.execute("UPDATE jobs SET created_at=created_at+9999 WHERE id=?", (first.id,))
    assert sdk.get_job("@last").id == last.id
    assert [job.id for job in sdk.store.recent()] == [last.id, first.id]
    index = tmp_path / "times"
    index.write_text("100.0 10\n50.0 20\n60.0 30\n70.")
    times = [TimeIndex(index).at(offset) for offset in (10, 20, 30, 99)]
    assert [time and time.timestamp() for time in times] == [100.0, 100.0, 100.0, 100.0]


def test_a_bar_that_draws_all_the_time_is_shown_while_it_draws(sdk: LocalSDK) -> None:
    job = start(sdk, r"for i in $(seq 1 60); do printf '\r%d%%' $i; sleep 0.05; done; echo")
    lines = [line.text for line in sdk.iter_job_logs(job.id, LogQuery(follow=True)) if isinstance(line, LogLine)]
    assert len(lines) > 1
    assert lines[-1].endswith("60%")


def test_a_daemon_of_the_submitter_is_no_daemon_of_the_job(sdk: LocalSDK) -> None:
    with subprocess.Popen(["sleep", "100"]) as other:
        sdk.wait(start(sdk, "true").id, interval=0.2)
        assert other.poll() is None
        other.kill()
