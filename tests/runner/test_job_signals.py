"""Signals, process groups and zombies, through whole jobs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tao_run.entrypoint.bundle import inline_script
from tao_run.entrypoint.plans import make_plan
from tests.runner.conftest import Container


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def running(parent: int, name: str) -> bool:
    """Whether a child of `parent` runs this program by now."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return any(Path(f"/proc/{pid}/comm").read_text().strip() == name for pid in children)


def read_pid(path: Path) -> int:
    return int(path.read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_ending_signals_end_the_command(container: Container, number: signal.Signals) -> None:
    process = container.start(command="touch {results_dir}/up; exec sleep 1000")
    container.wait_for(lambda: (container.results / "up").exists() and running(process.pid, "sleep"))
    process.send_signal(number)
    assert container.finish(process, timeout=20).code == 128 + number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ending_signals_reach_the_whole_group(container: Container, number: signal.Signals) -> None:
    process = container.start(
        command="sleep 1000 & echo $! > {results_dir}/pid.tmp; mv {results_dir}/pid{.tmp,}; wait; echo no",
    )
    container.wait_for((container.results / "pid").exists)
    process.send_signal(number)
    ran = container.finish(process, timeout=20)
    assert ran.code == 128 + number
    assert "no" not in ran.out
    assert not alive(read_pid(container.results / "pid"))


GRACEFUL = """
import pathlib, signal, sys, time
results = pathlib.Path(sys.argv[1])
def save(*_):
    time.sleep(0.4)
    (results / "saved").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
(results / "up").touch()
while True:
    time.sleep(0.05)
"""


def test_a_command_that_ends_gracefully_keeps_its_own_exit_code(container: Container) -> None:
    process = container.start(
        command="cd {results_dir}; trap 'echo > saved; exit 5' TERM; touch up; while :; do sleep .05; done"
    )
    container.wait_for((container.results / "up").exists)
    process.terminate()
    assert container.finish(process).code == 5
    assert (container.results / "saved").exists()


def test_children_may_finish_their_work_within_the_grace(container: Container) -> None:
    # bash dies at once, the program under it needs a moment to save
    process = container.start(
        command=f'{sys.executable} -c "$PROGRAM" {{results_dir}}; echo after', env={"PROGRAM": GRACEFUL}
    )
    container.wait_for((container.results / "up").exists)
    process.terminate()
    assert container.finish(process).code == 143
    assert (container.results / "saved").exists()


def test_a_command_that_ignores_the_signal_is_killed_after_the_grace(container: Container) -> None:
    process = container.start(
        {"TAO_RUN_GRACE": "0.3"}, command="trap '' TERM; touch {results_dir}/up; while :; do sleep .05; done"
    )
    container.wait_for((container.results / "up").exists)
    process.terminate()
    ran = container.finish(process, timeout=20)
    assert ran.code == 137
    assert "it is killed" in ran.log


def test_a_warning_signal_is_passed_on_and_ends_nothing(container: Container) -> None:
    process = container.start(
        command="cd {results_dir}; trap 'echo > w' USR1; touch up; while [ ! -e w ]; do sleep .05; done; exit 7"
    )
    container.wait_for((container.results / "up").exists)
    process.send_signal(signal.SIGUSR1)
    assert container.finish(process).code == 7


def test_what_the_command_left_running_is_ended(container: Container) -> None:
    ran = container.run(command="sleep 1000 & echo $! > {results_dir}/pid")
    assert ran.code == 0
    assert not alive(read_pid(container.results / "pid"))


def test_orphans_do_not_stay_zombies(container: Container) -> None:
    # setsid leaves the group: what it starts is adopted, and reaped when it ends
    process = container.start(
        command="cd {results_dir}; (setsid sh -c 'echo $$ > pid' &); while [ ! -e go ]; do sleep .05; done"
    )
    container.wait_for(lambda: (container.results / "pid").exists() and (container.results / "pid").read_text() != "")
    pid = read_pid(container.results / "pid")
    container.wait_for(lambda: not Path(f"/proc/{pid}").exists())
    (container.results / "go").touch()
    assert container.finish(process).code == 0


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_as_process_1_it_takes_signals_and_reaps(container: Container) -> None:
    script = inline_script(
        make_plan(command="echo $PPID > {results_dir}/parent; (setsid sleep 0.2 &); touch {results_dir}/up; sleep 1000")
    )
    process = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "/bin/bash", "-c", script],
        env=container.environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    container.processes.append(process)
    container.wait_for((container.results / "up").exists)
    assert (container.results / "parent").read_text() == "1\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    inside = int(children[0])
    time.sleep(0.5)
    descendants = Path(f"/proc/{inside}/task/{inside}/children").read_text().split()
    assert [pid for pid in descendants if not alive(int(pid))] == []
    os.kill(inside, signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143
