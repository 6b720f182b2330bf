"""Logs of a real dockerd: long lines, a terminal, tails, and a follow through a daemon that dies and comes back."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tao_run.errors import BackendRejected, BackendUnreachable, NoSuchJob
from tao_run.jobs.model import JobState, LogLine, LogQuery
from tao_run.platforms.lifecycle import cancel
from tests.platforms.docker.conftest import Bench
from tests.services.docker import DockerService, docker_service

LONG = 100_003
LONG_LINE = f"head -c {LONG} /dev/zero | tr '\\0' x; echo"
TTY = pytest.mark.parametrize("tty", [False, True])


@TTY
def test_long_lines_are_whole(bench: Bench, tty: bool) -> None:
    texts = bench.output(f"echo a; {LONG_LINE}; echo größe; {LONG_LINE}; printf end", options={"tty": tty})
    assert [text if len(text) < 100 else len(text) for text in texts] == ["a", LONG, "größe", LONG, "end"]


@TTY
def test_a_tail_counts_lines_and_not_pieces(bench: Bench, tty: bool) -> None:
    job, _ = bench.run("seq 1 100; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end", options={"tty": tty})
    assert [len(text) for text in bench.texts(job, tail=1)] == [3]
    assert [len(text) for text in bench.texts(job, tail=2)] == [3_000_000, 3]
    assert bench.texts(job, tail=4)[:2] == ["99", "100"]
    assert bench.texts(job, tail=0) == []
    assert len(bench.texts(job, tail=10_000)) == 102


def test_a_terminal_is_a_terminal(bench: Bench) -> None:
    assert bench.output("test -t 1 && echo terminal", options={"tty": True}) == ["terminal"]
    assert bench.output("test -t 1 || echo none") == ["none"]


@TTY
def test_follow_from_a_tail_and_from_a_moment(bench: Bench, tty: bool) -> None:
    job = bench.submit("seq 1 30; sleep 2; echo end", options={"tty": tty})
    bench.wait(job, lambda status: len(bench.texts(job)) == 30)
    assert bench.texts(job, tail=0, follow=True) == ["end"]
    lines = bench.log(job)
    moment = lines[-1].time
    assert moment is not None
    assert [line.text for line in bench.log(job, since=moment)] == ["end"]
    assert bench.texts(job, since=moment - timedelta(seconds=1), follow=True) == ["end"]
    assert bench.texts(job, since=moment - timedelta(seconds=60), tail=2) == ["30", "end"]


def test_both_streams_in_one_order(bench: Bench) -> None:
    texts = bench.output("for i in 1 2 3; do echo out$i; sleep 0.05; echo err$i >&2; sleep 0.05; done")
    assert texts == ["out1", "err1", "out2", "err2", "out3", "err3"]


def test_the_log_of_a_removed_container_is_told_to_be_gone(bench: Bench) -> None:
    job, _ = bench.run("echo hello")
    bench.service.cli("rm", job.name)
    with pytest.raises(NoSuchJob, match="removed"):
        bench.texts(job)
    assert bench.sdk.evidence(bench.store.get(job.id)).log_tail == ()


def test_a_container_removed_in_mid_follow_ends_it_with_a_word(bench: Bench) -> None:
    job = bench.submit("echo one; sleep 60")
    kinds = []
    for line in bench.sdk.logs(bench.store.get(job.id), LogQuery(follow=True)):
        kinds.append(line.kind)
        if line.text == "one":
            bench.service.cli("rm", "-f", job.name)
    assert kinds == ["line", "gap"]


# -- a daemon of one's own, to be broken -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def fragile() -> Iterator[DockerService]:
    with docker_service() as service:
        yield service


@pytest.fixture
def own(fragile: DockerService, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(fragile, tmp_path / "state")
    yield made
    fragile.start()
    made.close()


class Follower(threading.Thread):
    """Follows a job as a user would, until its end."""

    def __init__(self, bench: Bench, job_id: str) -> None:
        super().__init__(daemon=True)
        self.lines: list[LogLine] = []
        self._stream = bench.sdk.logs(bench.store.get(job_id), LogQuery(follow=True))
        self.start()

    def run(self) -> None:
        for line in self._stream:
            self.lines.append(line)

    def await_lines(self, count: int) -> None:
        deadline = time.monotonic() + 20
        while len(self.lines) < count:
            assert time.monotonic() < deadline, self.lines
            time.sleep(0.02)

    def texts(self) -> list[str]:
        self.join(30)
        assert not self.is_alive()
        return [line.text for line in self.lines if line.kind == "line"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_follow_outlives_the_daemon(own: Bench, number: int) -> None:
    job = own.submit("for i in $(seq 1 80); do echo line $i; echo warn $i >&2; sleep 0.05; done; exit 3")
    follower = Follower(own, job.id)
    follower.await_lines(20)
    own.service.stop(number)
    with pytest.raises(BackendUnreachable, match="daemon"):
        own.look(job)
    assert own.store.get(job.id).status.state is not JobState.ERROR
    time.sleep(0.5)
    own.service.start()
    texts = follower.texts()
    assert [text for text in texts if text.startswith("line")] == [f"line {n}" for n in range(1, 81)]
    assert [text for text in texts if text.startswith("warn")] == [f"warn {n}" for n in range(1, 81)]
    assert [line.kind for line in follower.lines].count("note") == 1
    status = own.wait(job)
    assert (status.state, status.exit_code) == (JobState.ERROR, 3)


def test_a_daemon_that_takes_its_containers_along(own: Bench) -> None:
    """Without live restore a restart ends the containers: an error with its reason, and the follow ends."""
    own.service.stop()
    own.service.start(live_restore=False)
    job = own.submit("echo one; sleep 60")
    follower = Follower(own, job.id)
    follower.await_lines(1)
    own.service.stop()
    own.service.start()
    assert follower.texts() == ["one"]
    status = own.wait(job)
    assert (status.state, status.reason) in [(JobState.ERROR, "SIGKILL"), (JobState.ERROR, "SIGTERM")]


def test_cancel_works_after_a_restart_and_the_log_stays(own: Bench) -> None:
    job = own.submit("echo before; sleep 60")
    own.wait(job, lambda status: bool(own.texts(job)))
    own.service.stop(signal.SIGKILL)
    own.service.start()
    assert cancel(own.sdk, own.store, own.store.get(job.id)).status.state is JobState.CANCELED
    assert own.texts(job) == ["before"]


def test_an_engine_that_keeps_no_log_says_so(own: Bench) -> None:
    own.service.stop()
    own.service.start("--log-driver", "none")
    job, status = own.run("echo unheard; exit 4")
    assert (status.state, status.exit_code) == (JobState.ERROR, 4)
    for follow in (False, True):
        with pytest.raises(BackendRejected, match="does not support reading") as failed:
            own.texts(job, follow=follow)
        assert "log driver" in failed.value.hint
    evidence = own.sdk.evidence(own.store.get(job.id))
    assert (evidence.log_tail, evidence.status.exit_code) == ((), 4)
    own.service.stop()


def test_a_log_that_is_rotated_while_followed(own: Bench) -> None:
    own.service.stop()
    own.service.start("--log-opt", "max-size=20k", "--log-opt", "max-file=3")
    job = own.submit("for i in $(seq 1 3000); do echo line $i; [ $((i % 100)) = 0 ] && sleep 0.05; done; true")
    assert own.texts(job, follow=True) == [f"line {n}" for n in range(1, 3001)]
    own.service.stop()
