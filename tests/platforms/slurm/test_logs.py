"""Logs over ssh: whole, in order, resumed on another login host, whatever their size."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from tao_run.clock import SystemClock
from tao_run.jobs.model import LogQuery
from tao_run.platforms.slurm.cluster import Cluster as Where
from tao_run.platforms.slurm.logs import LogReader, log_line
from tao_run.platforms.slurm.remote import Remote
from tao_run.platforms.slurm.ssh import SshSettings
from tao_run.platforms.slurm.timeline import Timeline
from tests.platforms.slurm.conftest import Site
from tests.services.slurm import USER, Cluster

START = 1_700_000_000


@pytest.fixture
def directory(scratch: Path) -> Path:
    """A job's directory as the cluster would have it, for logs that no job needs to write."""
    (scratch / "logs").mkdir()
    return scratch


def write(directory: Path, **texts: str | bytes) -> None:
    for name, text in texts.items():
        data = text if isinstance(text, bytes) else text.encode()
        (directory / "logs" / f"{name.replace('_', '-')}.log").write_bytes(data)
    (directory / "exit-code").write_text("0\n")


def reader(cluster: Cluster, directory: Path) -> LogReader:
    remote = Remote(Where(USER, ("login-a",), "/x"), SshSettings(config=str(cluster.ssh_config)))
    return LogReader(remote, str(directory), 2, SystemClock(), lambda: True)


def texts(cluster: Cluster, directory: Path, query: LogQuery | None = None) -> list[str]:
    return [line.text for line in reader(cluster, directory).lines(query or LogQuery())]


def test_login_host_a_stops_in_mid_watch_and_b_takes_over_without_a_lost_line(site: Site) -> None:
    job = site.submit("for i in $(seq 1 80); do echo line $i; sleep 0.1; done")
    seen, stopped = [], False
    try:
        for line in site.adapter().logs(job, LogQuery(follow=True)):
            seen.append(line.text)
            if len(seen) == 10:
                site.cluster.stop("sshd-a")
                stopped = True
    finally:
        site.cluster.start()
    assert stopped
    assert seen == [f"line {number}" for number in range(1, 81)]


def test_a_log_of_many_slices_is_whole_and_in_time_order(slurm_cluster: Cluster, directory: Path) -> None:
    lines: dict[int, list[str]] = {0: [], 1: []}
    index, sizes, wanted = [], {0: 0, 1: 0}, []
    for step in range(60):
        for rank in (0, 1):
            block = [f"rank {rank} step {step} line {number} {'x' * 100}" for number in range(1500)]
            lines[rank] += block
            wanted += block
            sizes[rank] += sum(len(line) + 1 for line in block)
            index.append(f"{START + step}.{rank} logs/rank-{rank}.log {sizes[rank]}")
    write(directory, **{f"rank_{rank}": "\n".join(lines[rank]) + "\n" for rank in (0, 1)})
    (directory / "logs" / "index").write_text("\n".join(index) + "\n")
    assert sum(sizes.values()) > 20_000_000
    assert texts(slurm_cluster, directory) == wanted
    assert texts(slurm_cluster, directory, LogQuery(tail=3)) == wanted[-3:]
    later = datetime.fromtimestamp(START + 59, timezone.utc)
    assert texts(slurm_cluster, directory, LogQuery(since=later)) == wanted[-3000:]


def test_a_line_of_ten_megabytes_and_odd_bytes_arrive(slurm_cluster: Cluster, directory: Path) -> None:
    long = "é" * 5_000_000
    write(directory, rank_0=f"{long}\n".encode() + b"bad \xff byte\r\nprogress 1%\rprogress 2%\nend")
    assert texts(slurm_cluster, directory) == [long, "bad \ufffd byte", "progress 1%\rprogress 2%", "end"]


def test_what_looks_like_a_frame_is_text(slurm_cluster: Cluster, directory: Path) -> None:
    hostile = ["tao-run-0123456789abcdef logs/rank-0.log 0 5", "tao-run-0123 end", "$(id) `id`", "* ? ~"]
    write(directory, rank_0="\n".join(hostile) + "\n")
    assert texts(slurm_cluster, directory) == hostile


def test_without_notes_of_time_the_lines_are_whole_all_the_same(slurm_cluster: Cluster, directory: Path) -> None:
    write(directory, rank_0="a\nb\n", rank_1="c\n", job="srun: error: x\n")
    lines = list(reader(slurm_cluster, directory).lines(LogQuery()))
    assert [(line.rank, line.text, line.kind, line.time) for line in lines] == [
        (0, "a", "line", None),
        (0, "b", "line", None),
        (1, "c", "line", None),
        (None, "srun: error: x", "note", None),
    ]


def test_one_replica_and_the_batch_script(slurm_cluster: Cluster, directory: Path) -> None:
    write(directory, rank_0="zero\n", rank_1="one\n", job="batch\n")
    for wanted, text in (("1", "one"), ("rank-1", "one"), ("0", "zero"), ("batch", "batch")):
        assert texts(slurm_cluster, directory, LogQuery(replica=wanted)) == [text]


def test_a_directory_that_is_gone_is_a_gap(slurm_cluster: Cluster) -> None:
    lines = list(reader(slurm_cluster, Path("/nonexistent/job")).lines(LogQuery()))
    assert [line.kind for line in lines] == ["gap"]
    assert "/nonexistent/job is gone" in lines[0].text


def test_slurms_own_words_are_notes() -> None:
    for text in ("slurmstepd: error: *** STEP 5.0 CANCELLED ***", "srun: error: node1: task 0: Killed"):
        assert log_line("logs/rank-0.log", text, None).kind == "note"
    assert log_line("logs/rank-0.log", "slurm is a word", None).kind == "line"


def test_parts_of_a_log_have_the_time_at_which_they_were_seen() -> None:
    timeline = Timeline(f"{START} logs/a.log 4\n{START + 5} logs/a.log 10\nnoise\n{START + 6} logs/b.log 1\n")
    parts = [(time and int(time.timestamp()), data) for time, data in timeline.parts("logs/a.log", 2, b"cdefghijkl")]
    assert parts == [(START, b"cd"), (START + 5, b"efghij"), (START + 5, b"kl")]
    assert [data for _, data in timeline.parts("logs/new.log", 0, b"xy")] == [b"xy"]
    assert timeline.since(datetime.fromtimestamp(START + 5, timezone.utc)) == {"logs/a.log": 4, "logs/b.log": 0}
    assert list(timeline.slices(5)) == [{"logs/a.log": 10}]
