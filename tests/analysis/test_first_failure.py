"""One process fails, the others fall with it: whatever the backend and the order of lines, the first is named."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tao_run.analysis import FailureAnalysis, analyze, analyze_log
from tao_run.jobs.model import Evidence, JobState, JobStatus, LogLine, NodeEvent, Replica

T0 = datetime(2026, 1, 14, 9, 0, tzinfo=timezone.utc)
VALUE_ERROR = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/workspace/train.py", line 31, in <module>\n'
    "[rank1]: ValueError: unknown backbone 'fan_huge'"
)
BARE = VALUE_ERROR.replace("[rank1]: ", "")
CLOSING = (
    "W0114 09:00:04.201 188 torch/distributed/elastic/multiprocessing/api.py:897]"
    " Sending process {0} closing signal SIGTERM"
)
DEATH = "W0114 09:00:04.300 188 torch/distributed/elastic/agent/server/api.py:688] Received 15 death signal"
SIGNALED = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 1188 got signal: 15"
LOST = (
    "[rank{0}]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, remote process exited or there"
    " was a network error, NCCL version 2.21.5\n[rank{0}]: ncclRemoteError: A call failed possibly"
)
RESET = "[rank{0}]: ConnectionResetError: [Errno 104] Connection reset by peer"
SIGTERM = "Signal 15 (SIGTERM) received by PID {0}"


def row(rank: int, code: int, second: int, local: int | None = None) -> str:
    """One process in the table of torchrun."""
    words = SIGTERM.format(1000 + rank) if code == -15 else "To enable traceback see: https://pytorch.org/docs"
    return (
        f"[{rank}]:\n  time      : 2026-01-14_09:00:{second:02}\n  host      : gpu-{rank // 8}\n"
        f"  rank      : {rank} (local_rank: {rank % 8 if local is None else local})\n"
        f"  exitcode  : {code} (pid: {1000 + rank})\n  error_file: <N/A>\n  traceback : {words}"
    )


def table(first: str, others: Sequence[str] = ()) -> str:
    """The account that torchrun gives of its processes."""
    return "\n".join(
        [
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            "train.py FAILED",
            "Failures:",
            *(others or ["  <NO_OTHER_FAILURES>"]),
            "Root Cause (first observed failure):",
            first,
        ]
    )


TORCHRUN = [
    BARE,
    *(CLOSING.format(1000 + rank) for rank in (0, 2, 3, 4, 5, 6, 7)),
    "E0114 09:00:05 api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 1001) of binary: /usr/bin/python3",
    table(row(1, 1, 4), [row(rank, -15, 4) for rank in (0, 2, 3, 4, 5, 6, 7)]),
]


def lines(pieces: Sequence[str], rank: int | None, name: str) -> list[LogLine]:
    """Pieces of one replica's log; all have the same time, which is as exact as a backend may be."""
    return [LogLine(text, T0, rank, name) for piece in pieces for text in piece.split("\n")]


def failed(
    *logs: Sequence[str],
    codes: Sequence[int | None],
    shuffle: int | None = None,
    labelled: bool = True,
    **more: Any,
) -> FailureAnalysis:
    """The analysis of a job with one log and one exit code for each of its nodes."""
    names = [f"w-{rank}" for rank in range(len(codes))]
    parts = [[lines([piece], rank, names[rank]) for piece in log] for rank, log in enumerate(logs)]
    if labelled:
        merged = _merged([[[line] for piece in part for line in piece] for part in parts], shuffle)
    else:
        merged = [replace(line, rank=None, replica="") for line in _merged(parts, shuffle)]
    replicas = tuple(Replica(rank, names[rank], node=f"gpu-{rank}", exit_code=code) for rank, code in enumerate(codes))
    told = Evidence(JobStatus(JobState.ERROR, exit_code=1), replicas, log_tail=tuple(merged))
    found = analyze(replace(told, **more))
    assert found is not None
    return found


def _merged(parts: list[list[list[LogLine]]], seed: int | None) -> list[LogLine]:
    """Pieces of several nodes' logs in a random order that keeps the order within each node."""
    turns = [index for index, part in enumerate(parts) for _ in part]
    if seed is not None:
        random.Random(seed).shuffle(turns)
    sources = [iter(part) for part in parts]
    return [line for index in turns for line in next(sources[index])]


def assert_the_programs(found: FailureAnalysis) -> None:
    assert (found.rule, found.err_class, found.retryable) == ("python-exception", "ERR_PROGRAM", False)
    assert found.details["exception"] == "ValueError"


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("read", ["saved", "one container"])
def test_of_eight_processes_of_torchrun_the_one_with_the_exception_is_named(read: str, reverse: bool) -> None:
    pieces = TORCHRUN[::-1] if reverse else TORCHRUN
    if read == "saved":
        found = analyze_log(io.BytesIO("\n".join(pieces).encode()))
        assert found is not None
    else:
        found = failed(pieces, codes=[1])
    assert_the_programs(found)
    assert (found.first_failed.rank, found.first_failed.exit_code) == (1, 1)
    assert found.victims == (0, 2, 3, 4, 5, 6, 7)


OTHERS: dict[str, list[str]] = {
    "stopped": [DEATH, SIGNALED],
    "nccl": [LOST.format(8), RESET.format(9), table(row(8, 1, 3), [row(9, 1, 3)])],
    "aborted": [LOST.format(8), "terminate called after throwing an instance of 'c10::DistBackendError'"],
    "slurm": ["slurmstepd: error: *** STEP 45791.0 ON gpu-1 CANCELLED AT 2026-01-14T09:00:05 ***"],
    "waits": ["torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"],
    "link": ["gpu-1:88:91 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.1 with error 12, opcode 0"],
    "lightning": ["lightning.pytorch.utilities.exceptions.SIGTERMException"],
    "loader": ["RuntimeError: DataLoader worker (pid 2211) is killed by signal: Terminated."],
    "killed": ["/bin/bash: line 1:    12 Killed                  python3 train.py"],
}


@pytest.mark.parametrize("shuffle", range(6))
@pytest.mark.parametrize("code", [1, 134, 137, 143, None])
@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_of_two_nodes_the_one_with_the_exception_is_named(kind: str, code: int | None, shuffle: int) -> None:
    first = [VALUE_ERROR, *TORCHRUN[1:]]
    found = failed(first, OTHERS[kind], codes=[1, code], shuffle=shuffle)
    assert_the_programs(found)
    assert (found.first_failed.rank, found.first_failed.node_rank, found.first_failed.exit_code) == (1, 0, 1)
    assert {0, 2, 3} < set(found.victims) and 1 not in found.victims


@pytest.mark.parametrize("shuffle", range(6))
@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_lines_and_processes_without_labels_tell_it_too(kind: str, shuffle: int) -> None:
    found = failed(TORCHRUN, OTHERS[kind], codes=[1, 143], shuffle=shuffle, labelled=False)
    assert_the_programs(found)
    assert found.first_failed.rank == 1


@pytest.mark.parametrize("shuffle", range(4))
def test_without_a_launcher_the_replica_is_named_and_the_stopped_ones_are_its_victims(shuffle: int) -> None:
    found = failed([SIGNALED], [BARE], [SIGNALED], codes=[143, 1, 143], shuffle=shuffle)
    assert_the_programs(found)
    assert (found.first_failed.node_rank, found.first_failed.replica, found.first_failed.exit_code) == (1, "w-1", 1)
    assert (found.first_failed.node, found.victims) == ("gpu-1", (0, 2))


def slurm() -> dict[str, Any]:
    events = (NodeEvent("FAILED", "step 0 ended with 1:0", node="gpu-[0-1]"),)
    return {
        "status": JobStatus(JobState.ERROR, "NonZeroExitCode", native_state="FAILED", exit_code=1),
        "events": events,
    }


def kubernetes() -> dict[str, Any]:
    status = JobStatus(JobState.ERROR, "FailedIndexes", "Job has failed indexes", "Failed", exit_code=1)
    return {"status": status, "events": (NodeEvent("BackoffLimitExceeded", "Job has reached its limit", node="gpu-0"),)}


def lepton() -> dict[str, Any]:
    native = {"err_class": "ERR_INFRA", "suggestion": "Try again", "job_failure_by_node_event": None}
    return {"status": JobStatus(JobState.ERROR, native_state="Failed", exit_code=1), "native": native}


def plain() -> dict[str, Any]:
    return {"status": JobStatus(JobState.ERROR, "ExitCode", "exit code 1", "exited", exit_code=1)}


@pytest.mark.parametrize("shape", [slurm, kubernetes, lepton, plain])
def test_what_the_backends_say_beside_it_changes_nothing(shape: Callable[[], dict[str, Any]]) -> None:
    found = failed([SIGNALED], [BARE], codes=[143, 1], **shape())
    assert_the_programs(found)
    assert (found.first_failed.node_rank, found.victims) == (1, (0,))


@pytest.mark.parametrize("shuffle", range(4))
def test_a_process_that_failed_without_words_is_named_by_its_code(shuffle: int) -> None:
    found = failed([SIGNALED], ["bye"], codes=[143, 1], shuffle=shuffle)
    assert (found.rule, found.err_class, found.first_failed.node_rank) == ("program-failed", "ERR_PROGRAM", 1)


@pytest.mark.parametrize("shuffle", range(4))
def test_a_code_that_no_rule_knows_still_names_the_replica(shuffle: int) -> None:
    found = failed([SIGNALED], ["bye"], codes=[143, 7], shuffle=shuffle)
    assert (found.rule, found.err_class, found.retryable) == ("unexplained", "ERR_PROGRAM", False)
    assert (found.first_failed.node_rank, found.first_failed.exit_code, found.victims) == (1, 7, (0,))


def test_where_all_were_stopped_nobody_is_called_the_first() -> None:
    assert not failed(["bye"], ["bye"], codes=[143, 143]).first_failed.known


def test_lines_without_the_name_of_their_replica_are_known_by_its_rank() -> None:
    told = Evidence(
        JobStatus(JobState.ERROR, exit_code=1),
        (Replica(0, "rank-0", exit_code=143), Replica(1, "rank-1", node="gpu-1", exit_code=1)),
        log_tail=(*lines([SIGNALED], 0, ""), *lines([BARE], 1, "")),
    )
    found = analyze(told)
    assert found is not None
    assert_the_programs(found)
    assert (found.first_failed.node, found.first_failed.exit_code) == ("gpu-1", 1)


@pytest.mark.parametrize("shuffle", range(4))
def test_one_that_was_killed_is_the_cause_of_the_stops_and_lost_connections_of_the_others(shuffle: int) -> None:
    logs = [[LOST.format(0), SIGNALED], ["Epoch 3"], [SIGNALED], [LOST.format(3)]]
    found = failed(*logs, codes=[143, 137, 143, 134], shuffle=shuffle)
    assert (found.rule, found.err_class, found.retryable) == ("killed", "ERR_PROGRAM", False)
    assert (found.first_failed.node_rank, found.first_failed.exit_code) == (1, 137)
    oom = (NodeEvent("OOMKilled", "the container was out of memory", node="gpu-1"),)
    told = failed(*logs, codes=[143, 137, 143, 134], shuffle=shuffle, events=oom)
    assert (told.rule, told.retryable) == ("host-oom", False)


def test_torchruns_table_tells_which_one_was_killed_first() -> None:
    rows = [row(0, -15, 4), row(2, -15, 4), row(3, -6, 4)]
    found = failed([LOST.format(3), table(row(1, -9, 4), rows)], codes=[1])
    assert (found.rule, found.first_failed.rank, found.first_failed.exit_code) == ("killed", 1, -9)
    assert found.victims == (0, 2, 3)


STOPPED = ["Epoch 3: 20%", DEATH, SIGNALED]


@pytest.mark.parametrize("codes", [[1, 1], [143, 143], [1, 143], [None, None]])
def test_a_stop_from_outside_with_no_error_of_the_program_stays_one(codes: list[int | None]) -> None:
    found = failed(STOPPED, [*STOPPED, RESET.format(9)], codes=codes)
    assert (found.rule, found.err_class, found.retryable) == ("terminated", "ERR_INFRA", True)


def test_a_stop_of_all_processes_in_torchruns_table_stays_one() -> None:
    found = failed([table(row(0, -15, 4), [row(rank, -15, 4) for rank in (1, 2, 3)])], codes=[1])
    assert (found.rule, found.err_class, found.retryable) == ("terminated", "ERR_INFRA", True)


def test_a_preemption_stays_one() -> None:
    status = JobStatus(JobState.ERROR, "PREEMPTED", native_state="PREEMPTED", exit_code=143)
    found = failed(STOPPED, [*STOPPED, LOST.format(9)], codes=[143, 137], status=status)
    assert (found.rule, found.err_class, found.retryable) == ("preempted", "ERR_INFRA", True)


@pytest.mark.parametrize("number", [79, 48, 56])
@pytest.mark.parametrize("shuffle", range(4))
def test_an_xid_on_one_node_outranks_the_tracebacks_of_all(shuffle: int, number: int) -> None:
    xid = f"NVRM: Xid (PCI:0000:4e:00): {number}, pid=48213, name=python3"
    launch = "[rank{0}]: RuntimeError: CUDA error: unspecified launch failure"
    own = [[launch.format(rank), f"[rank{rank}]: ValueError: loss is not usable"] for rank in range(3)]
    found = failed(own[0], [*own[1], xid], own[2], codes=[1, 1, 1], shuffle=shuffle)
    assert (found.category, found.err_class, found.retryable) == ("gpu-hardware", "ERR_INFRA", True)
    assert found.first_failed.node_rank == 1


def test_the_clean_up_that_the_driver_reports_of_a_killed_process_is_no_cause() -> None:
    xid = "NVRM: Xid (PCI:0000:4e:00): 45, pid=48213, name=python3, Ch 00000010"
    assert_the_programs(failed([BARE], [SIGNALED, xid], codes=[1, 143]))


def test_a_time_within_the_second_of_another_is_no_order() -> None:
    late = [replace(line, time=T0 + timedelta(milliseconds=900)) for line in lines([BARE], 1, "w-1")]
    early = lines([SIGNALED, LOST.format(0)], 0, "w-0")
    found = analyze(Evidence(JobStatus(JobState.ERROR), log_tail=(*early, *late)))
    assert found is not None
    assert_the_programs(found)
    assert found.first_failed.node_rank == 1
