"""Containers on a real dockerd: what a job gets, how it ends, and what is left behind."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tao_run.errors import BackendRejected, PermissionRefused, UsageError
from tao_run.jobs.model import JobState, JobStatus
from tao_run.platforms.docker import observe
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.create import LABEL_ID
from tao_run.platforms.docker.launch import remove_unstarted
from tao_run.platforms.lifecycle import cancel, launcher_died, submit
from tests.fakes.docker.proxy import DockerProxy
from tests.platforms.docker.conftest import Bench


class LateDaemon(Daemon):
    """A daemon looked at later."""

    late = timedelta(minutes=10)

    def now(self) -> datetime:
        return super().now() + self.late


# -- how a job ends --------------------------------------------------------------------------------------------


def test_out_of_memory_is_told_as_such(bench: Bench) -> None:
    hog = ["python3", "-c", "x = bytearray(300 * 2**20); print(len(x))"]
    job, status = bench.run(hog, image="py:1", options={"memory": "40m"})
    assert (status.state, status.reason, status.exit_code) == (JobState.ERROR, "OOMKilled", 137)
    evidence = bench.sdk.evidence(bench.store.get(job.id))
    assert "OOMKilled" in [event.name for event in evidence.events]
    assert evidence.facts["oom_killed"] == "true"
    assert evidence.facts["memory_limit"] == str(40 * 2**20)


def test_a_time_limit_is_told_as_such(bench: Bench) -> None:
    _, status = bench.run("echo begun; sleep 60", max_time=1)
    assert (status.state, status.reason) == (JobState.ERROR, "DeadlineExceeded")


def test_stopped_by_somebody_else_is_canceled(bench: Bench) -> None:
    job = bench.submit("sleep 60")
    bench.service.cli("kill", job.name)
    status = bench.wait(job)
    assert (status.state, status.reason, status.exit_code) == (JobState.CANCELED, "Stopped", 137)


def test_a_finished_job_that_was_removed_is_still_complete(bench: Bench) -> None:
    job = bench.submit("exit 0")
    bench.service.cli("wait", job.name)
    bench.service.cli("rm", job.name)
    assert bench.look(job).state is JobState.COMPLETE


def test_a_frozen_job_is_paused_and_can_be_canceled(bench: Bench) -> None:
    job = bench.submit("sleep 60")
    bench.service.cli("pause", job.name)
    assert bench.wait(job, lambda status: status.state is JobState.PAUSED).native_state == "paused"
    assert cancel(bench.sdk, bench.store, bench.store.get(job.id)).status.state is JobState.CANCELED


def test_cancel_gives_the_command_time_to_end(bench: Bench) -> None:
    job = bench.submit(
        "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done", options={"stop_seconds": 10}
    )
    bench.wait(job, lambda status: bool(bench.texts(job)))
    cancel(bench.sdk, bench.store, bench.store.get(job.id))
    assert bench.texts(job) == ["up", "saved"]


def test_delete_removes_the_container_after_it_stopped(bench: Bench) -> None:
    job = bench.submit("sleep 60")
    ended = cancel(bench.sdk, bench.store, bench.store.get(job.id), delete=True)
    assert ended.status.state is JobState.CANCELED
    assert not bench.exists(job)


# -- what never starts leaves nothing --------------------------------------------------------------------------


def test_an_image_without_bash_is_refused_and_leaves_nothing(bench: Bench) -> None:
    job = bench.build("true", image="pause:1", options={"init": False})
    with pytest.raises(BackendRejected, match="/bin/bash"):
        submit(bench.sdk, bench.store, job)
    assert not bench.exists(job)
    assert bench.store.get(job.id).status.reason == "SubmitRefused"


def test_an_image_that_is_nowhere(bench: Bench) -> None:
    job = bench.build("true", image="none:1", options={"pull_policy": "never"})
    with pytest.raises(BackendRejected, match="none:1") as refused:
        submit(bench.sdk, bench.store, job)
    assert refused.value.hint == "docker pull none:1"
    assert not bench.exists(job)


def test_a_name_that_somebody_else_uses_is_not_taken_over(bench: Bench) -> None:
    job = bench.build("true")
    bench.service.cli("create", "--name", job.name, "mini:1")
    with pytest.raises(BackendRejected, match="exists already"):
        submit(bench.sdk, bench.store, job)
    assert bench.exists(job)
    bench.service.cli("rm", job.name)


def test_several_nodes_are_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match="one host"):
        bench.sdk.prepare(bench.build("true", nodes=2))


def test_what_was_created_and_never_started_is_told_and_swept(bench: Bench) -> None:
    job = bench.build("true")
    bench.store.add(job, "gone:1:1")
    bench.service.cli("create", "--name", job.name, "--label", f"{LABEL_ID}={job.id}", "mini:1")
    assert bench.look(job).state is JobState.PENDING
    late = LateDaemon(bench.service.host, bench.sdk.clock, {})
    status = observe.poll(late, [job])[job.id]
    assert (status.state, status.reason) == (JobState.ERROR, "NeverLaunched")
    remove_unstarted(bench.sdk.daemon(job.account))
    assert bench.exists(job)
    remove_unstarted(late)
    assert not bench.exists(job)


def test_a_killed_submission_is_told_sooner_and_its_container_goes_when_the_job_is_settled(bench: Bench) -> None:
    job = bench.build("true")
    bench.store.add(job, f"{socket.gethostname()}:1:no-such-start")
    bench.service.cli("create", "--name", job.name, "--label", f"{LABEL_ID}={job.id}", "mini:1")
    assert bench.look(job).state is JobState.PENDING
    later = LateDaemon(bench.service.host, bench.sdk.clock, {})
    later.late = timedelta(seconds=90)
    assert observe.poll(later, [job])[job.id].state is JobState.PENDING
    status = observe.poll(later, [job], lambda one: launcher_died(bench.store.launcher(one.id)))[job.id]
    assert (status.state, status.reason) == (JobState.ERROR, "NeverLaunched")
    bench.sdk.settle(replace(bench.store.get(job.id), status=status))
    assert not bench.exists(job)


def test_settling_never_removes_a_container_that_runs(bench: Bench) -> None:
    job = bench.submit("sleep 30")
    never = JobStatus(JobState.ERROR, "NeverLaunched")
    bench.sdk.settle(replace(bench.store.get(job.id), status=never))
    assert bench.look(job).state is JobState.RUNNING


def test_a_user_without_rights_is_told_so(bench: Bench) -> None:
    socket = Path(bench.service.host.removeprefix("unix://"))
    assert stat.S_IMODE(socket.stat().st_mode) & 0o007 == 0
    job = bench.build("true")
    directory = socket.parent.stat()
    socket.parent.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(PermissionRefused, match="no permission") as refused:
            bench.sdk.poll([job])
    finally:
        os.seteuid(0)
        socket.parent.chmod(stat.S_IMODE(directory.st_mode))
    assert "group docker" in refused.value.hint


@pytest.mark.parametrize("request_line", [r"^POST .*/containers/create", r"^PUT .*/archive", r"^POST .*/start"])
def test_a_lost_answer_makes_no_second_job_and_loses_none(bench: Bench, tmp_path: Path, request_line: str) -> None:
    proxy = DockerProxy(bench.service.host)
    mounts = f"{tmp_path}:/out"
    command = 'echo "$HF_TOKEN" >> /out/runs'
    with proxy.lost_reply(request_line):
        job = bench.submit(command, options={"host": proxy.host, "mounts": mounts}, secrets={"HF_TOKEN": "HF_TOKEN"})
    assert bench.wait(job).state is JobState.COMPLETE
    assert (tmp_path / "runs").read_text() == "hf_canary-'\"$1\n"
    assert len(bench.service.cli("ps", "-aq", "--filter", f"label={LABEL_ID}={job.id}").split()) == 1
    assert any(re.search(request_line, request) for request in proxy.requests)
    proxy.close()


# -- what the container gets -----------------------------------------------------------------------------------


def test_one_directory_at_two_places(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "word").write_text("here\n")
    mounts = [f"{tmp_path}:/one", f"{tmp_path}:/two:ro"]
    command = "cat /one/word /two/word; touch /two/x 2>/dev/null || echo read-only; echo new > /one/new"
    assert bench.output(command, options={"mounts": mounts}) == ["here", "here", "read-only"]
    assert (tmp_path / "new").read_text() == "new\n"


def test_limits_shared_memory_and_devices(bench: Bench) -> None:
    options = {
        "shm_size": "48m",
        "ulimits": "nofile=1000:2000",
        "ipc": "private",
        "cpus": 1.5,
        "devices": "/dev/fuse:/dev/f",
    }
    job, status = bench.run("ulimit -Sn; ulimit -Hn; df -k /dev/shm | tail -1; ls /dev/f", options=options)
    texts = bench.texts(job)
    assert status.state is JobState.COMPLETE
    assert texts[:2] == ["1000", "2000"]
    assert texts[2].split()[1] == str(48 * 1024)
    assert texts[3] == "/dev/f"
    host = bench.inspect(job)["HostConfig"]
    assert (host["NanoCpus"], host["IpcMode"], host["NetworkMode"]) == (1_500_000_000, "private", "host")


def test_ipc_of_the_host_brings_its_shared_memory(bench: Bench) -> None:
    job = bench.submit("true", options={"ipc": "host"})
    assert bench.wait(job).state is JobState.COMPLETE
    assert bench.inspect(job)["HostConfig"]["IpcMode"] == "host"


def test_secrets_are_in_the_environment_and_nowhere_else(bench: Bench) -> None:
    secrets = {"HF_TOKEN": "HF_TOKEN", "OTHER": "NGC_KEY"}
    command = 'printf "%s|%s\\n" "$HF_TOKEN" "$OTHER"; ls -A /.tao-run; sleep 60'
    job = bench.submit(command, secrets=secrets)
    bench.wait(job, lambda status: len(bench.texts(job)) >= 2)
    assert bench.texts(job) == ["hf_canary-'\"$1|nvapi-canary-0123456789", "home"]
    told = json.dumps(bench.inspect(job)) + bench.service.cli("top", job.name, "-eo", "pid,args")
    assert "canary" not in told
    layers = list((bench.service.directory / "root/overlay2").glob("*/diff/.tao-run/*"))
    assert not [path for path in layers if path.is_file()]


def test_started_again_by_hand_says_that_the_secrets_are_used_up(bench: Bench) -> None:
    job, status = bench.run('test "$HF_TOKEN"', secrets={"HF_TOKEN": "HF_TOKEN"})
    assert status.state is JobState.COMPLETE
    bench.service.cli("start", job.name)
    assert bench.service.cli("wait", job.name).strip() == "1"
    assert "used up" in bench.texts(job)[-1]


@pytest.mark.parametrize(("user", "owner"), [("1234:1235", "1234:1235"), ("tao", "1234:1235"), ("4321", "4321:0")])
def test_another_user_has_a_home_and_reads_its_secrets(bench: Bench, tmp_path: Path, user: str, owner: str) -> None:
    tmp_path.chmod(0o777)
    command = 'echo "$(id -u):$(id -g) $HF_TOKEN"; touch $HOME/x && echo home; touch /out/x'
    options = {"user": user, "mounts": f"{tmp_path}:/out"}
    texts = bench.output(command, options=options, secrets={"HF_TOKEN": "HF_TOKEN"})
    assert texts == [f"{owner} hf_canary-'\"$1", "home"]
    made = (tmp_path / "x").stat()
    assert f"{made.st_uid}:{made.st_gid}" == owner


def test_results_belong_to_the_caller(bench: Bench, tmp_path: Path) -> None:
    """As an ordinary user with access to the socket: the container runs as that user."""
    results = tmp_path / "results"
    os.chown(tmp_path, 1234, 1235)
    for path in (tmp_path, *tmp_path.parents[:3], bench.service.directory):
        path.chmod(path.stat().st_mode | 0o055)
    socket = Path(bench.service.host.removeprefix("unix://"))
    mode = stat.S_IMODE(socket.stat().st_mode)
    command = 'echo "$(id -u) $USER"; echo 1 > $TAO_RESULTS_DIR/made'
    job = bench.build(command, image="py:1", results=str(results))
    socket.chmod(0o666)
    os.setresgid(1235, 1235, 0)
    os.setresuid(1234, 1234, 0)
    try:
        launch = bench.sdk.prepare(job)
        container = bench.sdk.launch(launch)
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        socket.chmod(mode)
    bench.service.cli("wait", container)
    made = next(results.rglob("made"))
    assert made.is_relative_to(job.results_dir)
    assert (results.stat().st_uid, made.stat().st_uid) == (1234, 1234)
    assert "1234 tao" in bench.texts_of(container)


def test_a_spec_too_large_for_a_command_is_copied_into_the_container(bench: Bench) -> None:
    """Random words: what compresses well would travel inside the command."""
    words = [os.urandom(24).hex() for _ in range(6000)]
    job, status = bench.run(
        "grep -c '[0-9a-f]\\{48\\}' {config_path}; test ! -w / || ls /.tao-run", image="py:1", spec={"words": words}
    )
    assert status.state is JobState.COMPLETE, bench.texts(job)
    assert {"6000", "home", "payload"} <= set(bench.texts(job))
    assert len(json.dumps(bench.inspect(job)["Config"])) < 100_000


def test_a_command_too_long_for_an_argument_runs_without_python(bench: Bench) -> None:
    assert bench.output(": " + "x" * 200_000 + "\necho done") == ["done"]


def test_the_images_own_entrypoint_can_be_kept(bench: Bench) -> None:
    bench.service.cli("commit", "-c", 'ENTRYPOINT ["/bin/env", "FROM=entry"]', bench.submit("true").name, "entry:1")
    assert bench.output("echo ${FROM:-none}", image="entry:1") == ["none"]
    assert bench.output("echo ${FROM:-none}", image="entry:1", options={"keep_entrypoint": True}) == ["entry"]


def test_labels_of_the_user_and_ours(bench: Bench) -> None:
    job = bench.submit("true", labels={"team": "vision"})
    labels = bench.inspect(job)["Config"]["Labels"]
    assert (labels["team"], labels[LABEL_ID]) == ("vision", job.id)


def test_an_image_default_of_all_gpus_is_switched_off(bench: Bench) -> None:
    assert bench.output("echo $NVIDIA_VISIBLE_DEVICES $NUM_GPU_PER_NODE") == ["void 0"]


def test_the_engine_and_its_job_are_described(bench: Bench) -> None:
    job = bench.submit("sleep 60")
    time.sleep(0.1)
    replica = bench.sdk.replicas(bench.store.get(job.id))[0]
    assert (replica.rank, replica.phase, replica.ready, replica.issue_reason) == (0, "running", True, "")
    engine = bench.sdk.resources(bench.service.host)[0]
    assert replica.node == engine.rows[0][0]
    assert int(engine.rows[0][3]) > 0
