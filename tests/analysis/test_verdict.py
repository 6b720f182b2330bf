"""What is cause and what is consequence: precedence, first failing rank, victims, survived errors, old events."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tao_run.analysis import FailureAnalysis, analyze, analyze_log
from tao_run.jobs.model import Evidence, JobState, JobStatus, LogLine, NodeEvent, Replica
from tests.analysis.builders import evidence

T0 = datetime(2026, 1, 14, 9, 0, tzinfo=timezone.utc)
TIMEOUT = (
    "[rank{0}]:[E1218 20:27:21 ProcessGroupNCCL.cpp:629] [Rank {0}] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600081 milliseconds before timing out."
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def of_log(*lines: str) -> FailureAnalysis:
    found = analyze_log(io.BytesIO("\n".join(lines).encode() + b"\n"))
    assert found is not None
    return found


def of_evidence(**data: Any) -> FailureAnalysis:
    found = analyze(evidence(data))
    assert found is not None
    return found


def test_an_assert_on_one_rank_outranks_the_timeouts_that_it_causes_on_the_others() -> None:
    found = of_log(
        *(TIMEOUT.format(rank) for rank in (0, 1, 2)),
        "[rank3]: RuntimeError: CUDA error: device-side assert triggered",
        *(TIMEOUT.format(rank) for rank in (4, 5)),
    )
    assert found.rule == "cuda-device-assert"
    assert found.first_failed.rank == 3
    assert found.victims == (0, 1, 2, 4, 5)


def test_an_xid_outranks_the_traceback_that_it_causes() -> None:
    found = of_log(
        "Traceback (most recent call last):",
        "RuntimeError: CUDA error: unspecified launch failure",
        "NVRM: Xid (PCI:0000:4e:00): 79, pid=48213, name=python3, GPU has fallen off the bus.",
    )
    assert found.rule == "gpu-lost"
    assert "cuda-illegal-access" in [other.rule for other in found.also_seen]
    assert found.err_class == "ERR_INFRA" and found.retryable


def test_the_first_of_two_failing_ranks_is_named() -> None:
    found = of_log("[rank5]: " + OOM, "[rank2]: " + OOM, TIMEOUT.format(0))
    assert (found.rule, found.first_failed.rank, found.victims) == ("cuda-oom", 5, (0,))


def test_torchruns_own_account_names_the_rank_and_the_host() -> None:
    found = of_log(
        OOM,
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Failures:",
        "[1]:",
        "  time      : 2026-01-14_09:00:09",
        "  host      : gpu-2",
        "  rank      : 3 (local_rank: 3)",
        "  exitcode  : -15 (pid: 102933)",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-01-14_09:00:04",
        "  host      : gpu-2",
        "  rank      : 2 (local_rank: 2)",
        "  exitcode  : 1 (pid: 102930)",
    )
    assert found.first_failed.rank == 2
    assert found.first_failed.node == "gpu-2"
    assert found.first_failed.exit_code == 1
    assert found.victims == (3,)


def test_of_exit_codes_1_137_137_the_137s_are_victims() -> None:
    codes = [137, 1, 137]
    replicas = [
        {"rank": rank, "name": f"w-{rank}", "node": f"n{rank}", "exit_code": code} for rank, code in enumerate(codes)
    ]
    found = of_evidence(status={"state": "Error", "exit_code": 1}, replicas=replicas, log="bye\n")
    assert found.rule == "program-failed"
    assert (found.first_failed.node_rank, found.first_failed.replica) == (1, "w-1")


def test_when_every_replica_was_killed_the_kill_is_the_finding() -> None:
    replicas = [{"rank": rank, "name": f"w-{rank}", "exit_code": 137} for rank in (0, 1)]
    assert of_evidence(status={"state": "Error"}, replicas=replicas, log="bye\n").rule == "killed"


def test_timeouts_alone_name_nobody_because_those_who_speak_are_the_victims() -> None:
    found = of_log(*(TIMEOUT.format(rank) for rank in (0, 1, 3)))
    assert found.rule == "nccl-timeout"
    assert not found.first_failed.known
    assert found.victims == (0, 1, 3)


def test_an_optional_module_that_is_missing_at_the_start_did_not_kill_the_run() -> None:
    progress = [f"Epoch {n // 100}: {n % 100}% loss 0.{n}" for n in range(60_000)]
    found = of_log("ModuleNotFoundError: No module named 'apex'", *progress, "RuntimeError: mesh is degenerate")
    assert found.rule == "python-exception"


def test_of_two_errors_of_one_process_the_last_is_the_one_it_died_of() -> None:
    found = of_log(
        "PermissionError: [Errno 13] Permission denied: '/home/me/.cache'",
        "using /tmp instead",
        "Traceback (most recent call last):",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.json'",
    )
    assert found.rule == "missing-file"
    assert found.details["path"] == "/data/train.json"


def test_an_exception_raised_while_another_was_handled_is_not_the_cause() -> None:
    found = of_log(
        "PermissionError: [Errno 13] Permission denied: '/data/train.json'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.json.bak'",
    )
    assert found.rule == "permission-denied"


def test_known_noise_is_never_a_cause() -> None:
    assert (
        analyze_log(
            io.BytesIO(
                b"WARNING - Telemetry data couldn't be sent, but the command ran successfully. ConnectTimeout\n"
                b"gpu-1:88:88 [0] NCCL INFO ncclSystemError is what we would say\n"
                b"UserWarning: CUDA error: out of memory is possible\n"
            )
        )
        is None
    )


def test_a_failed_scheduling_that_is_over_is_not_the_cause_of_a_later_failure() -> None:
    events = [{"name": "FailedScheduling", "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}]
    before = of_evidence(status={"state": "Pending"}, events=events)
    after = of_evidence(status={"state": "Error", "exit_code": 1}, events=events, log="KeyError: 'images'\n")
    assert (before.rule, after.rule) == ("unschedulable-gpu", "dataset-key")


def test_normal_events_are_no_causes() -> None:
    events = [{"name": "Evicted", "message": "by hand", "warning": False}]
    found = of_evidence(status={"state": "Error", "exit_code": 3}, events=events, log="x\n")
    assert found.rule == "program-failed"


def test_a_failed_job_that_no_rule_explains_says_so() -> None:
    found = of_evidence(status={"state": "Error", "reason": "Weird", "message": "no idea", "exit_code": 77})
    assert (found.rule, found.certainty) == ("unexplained", "unknown")
    assert "Weird: no idea" in found.means


def test_a_job_that_runs_well_or_is_complete_has_no_analysis() -> None:
    assert analyze(evidence({"status": {"state": "Running"}, "log": "Epoch 1\n"})) is None
    assert analyze(evidence({"status": {"state": "Complete", "exit_code": 0}, "log": OOM})) is None


def test_pending_for_less_than_15_minutes_or_with_a_node_is_no_finding() -> None:
    waiting = {"status": {"state": "Pending"}, "facts": {"pending_minutes": "14.9"}}
    placed = {"status": {"state": "Pending"}, "replicas": [{"rank": 0, "name": "a", "node": "n1"}]}
    assert analyze(evidence(waiting)) is None
    assert analyze(evidence({**placed, "facts": {"pending_minutes": "99"}})) is None


def test_the_node_at_fault_is_named_so_that_a_retry_can_avoid_it() -> None:
    replicas = [
        {"rank": 0, "name": "w-0", "node": "n1"},
        {
            "rank": 1,
            "name": "w-1",
            "node": "n2",
            "issue_reason": "ConfigError",
            "issue_message": "Mount point not found",
        },
    ]
    found = of_evidence(status={"state": "Pending"}, replicas=replicas)
    assert (found.rule, found.avoid_nodes) == ("node-unhealthy", ("n2",))


def test_a_program_error_names_no_node_to_avoid() -> None:
    assert of_log("srun: error: gpu-1: task 3: Exited with exit code 1", OOM).avoid_nodes == ()


def test_the_backends_own_class_counts_where_rules_only_know_that_something_failed() -> None:
    native = {
        "err_class": "ERR_INFRA",
        "suggestion": "The node was repaired; retry.",
        "job_failure_by_node_event": None,
    }
    weak = of_evidence(status={"state": "Error", "exit_code": 1}, native=native, log="x\n")
    strong = of_evidence(status={"state": "Error", "exit_code": 1}, native=native, log=OOM + "\n")
    assert (weak.err_class, weak.suggestion, weak.retryable) == ("ERR_INFRA", "The node was repaired; retry.", True)
    assert (strong.err_class, strong.rule) == ("ERR_PROGRAM", "cuda-oom")


def test_the_plain_form_has_the_keys_of_the_sdks() -> None:
    told = Evidence(
        JobStatus(JobState.ERROR, exit_code=1),
        replicas=(Replica(0, "w-0", exit_code=1),),
        events=(NodeEvent("OOM", "OOM encountered, victim process: python, pid: 4242", node="n1", time=T0),),
        log_tail=(LogLine("MemoryError", T0 + timedelta(seconds=1), 0, "w-0"),),
    )
    found = analyze(told)
    assert found is not None
    plain = found.to_dict()
    assert plain["err_class"] == "ERR_PROGRAM"
    assert plain["suggestion"].startswith("Give the job more memory")
    assert plain["job_failure_by_node_event"][0]["node_event_name"] == "OOM"
    assert plain["rule"] == "host-oom"
    log = analyze(Evidence(JobStatus(JobState.ERROR), log_tail=told.log_tail))
    assert log is not None
    assert log.to_dict()["log_streams"] == [
        {"stream": {"replica": "w-0"}, "values": [["1768381201000000000", "MemoryError"]]}
    ]


def test_details_are_filled_into_the_texts_or_left_out_well() -> None:
    found = of_log("ModuleNotFoundError: No module named 'pycocotools'")
    assert "pycocotools" in found.suggestion and "pycocotools" in found.means
    other = of_log("ImportError: cannot import name")
    assert "{" not in other.suggestion + other.means


NO_DNS = "Failed to resolve 'api.example.com' ([Errno -3] Temporary failure in name resolution)"


def test_a_message_that_is_only_possibly_the_cause_gives_way_to_the_exception_that_came_later() -> None:
    before = (
        "/bin/bash: line 1: ibstat: command not found",
        "mkdir: cannot create directory '/.cache': Permission denied",
    )
    found = of_log(*before, f"W tracker: {NO_DNS}", "Traceback:", "ValueError: unknown backbone 'fan_huge'")
    assert found.rule == "python-exception" and not found.retryable
    assert of_log(*before).rule == "command-not-found"
    assert of_log(f"requests.exceptions.ConnectionError: {NO_DNS}").rule == "dns"


def test_telemetry_that_finds_no_network_is_not_why_a_tao_run_failed() -> None:
    found = of_log(
        "ValueError: unknown backbone 'fan_huge'",
        "[2026-01-14 09:14:02,733 - TAO Toolkit - root - WARNING] Telemetry data couldn't be sent, but the command"
        " ran successfully.",
        f"[2026-01-14 09:14:02,733 - TAO Toolkit - root - WARNING] [Error]: HTTPSConnectionPool: {NO_DNS}",
        "[2026-01-14 09:14:02,733 - TAO Toolkit - root - WARNING] Execution status: FAIL",
    )
    assert found.rule == "python-exception"


def test_a_loss_that_was_nan_on_the_way_is_told_beside_the_exception() -> None:
    found = of_log("Epoch 0: train_loss=nan", "ValueError: unknown backbone 'fan_huge'")
    assert found.rule == "python-exception"
    assert [other.rule for other in found.also_seen] == ["loss-nan-in-progress"]


WORDS = [
    ("OUT_OF_MEMORY", "", "host-oom"),
    ("", "OutOfMemory", "host-oom"),
    ("exited", "OOMKilled", "host-oom"),
    ("TIMEOUT", "TimeLimit", "time-limit"),
    ("Failed", "TimeLimit", "time-limit"),
    ("timeout", "", "time-limit"),
    ("Failed", "DeadlineExceeded", "time-limit"),
    ("NODE_FAIL", "", "node-failure"),
    ("BOOT_FAIL", "", "node-unhealthy"),
    ("LAUNCH_FAILED", "", "node-unhealthy"),
    ("PREEMPTED", "", "preempted"),
    ("Failed", "Evicted", "evicted"),
    ("lost", "ProcessLost", "process-lost"),
]
WAITING = [
    ("QOSMaxGRESPerUser", "quota"),
    ("AssocGrpGRES", "quota"),
    ("QOSNotAllowed", "slurm-account"),
    ("PartitionTimeLimit", "partition-time"),
    ("BadConstraints", "unschedulable"),
    ("ReqNodeNotAvail", "unschedulable-gpu"),
    ("JobHeldUser", "job-held"),
    ("Priority", "pending-too-long"),
    ("Resources", "pending-too-long"),
    ("Prolog", "pending-too-long"),
    ("CreateContainerConfigError", "container-config"),
    ("ImagePullBackOff", "image-pull"),
]


@pytest.mark.parametrize(("native", "reason", "rule"), WORDS)
def test_the_backends_own_words_for_an_end_are_understood(native: str, reason: str, rule: str) -> None:
    status = {"state": "Error", "native_state": native, "reason": reason, "exit_code": 143}
    assert of_evidence(status=status, log="Epoch 4\n").rule == rule


@pytest.mark.parametrize(("reason", "rule"), WAITING)
def test_the_backends_own_words_for_waiting_are_understood(reason: str, rule: str) -> None:
    status = {"state": "Pending", "native_state": "PENDING", "reason": reason}
    assert of_evidence(status=status, facts={"pending_minutes": "20"}).rule == rule


def test_facts_of_an_adapter_are_no_texts_to_search() -> None:
    facts = {"Command": "/home/a/TIMEOUT.sh", "supervisor_log": "Evicted"}
    assert of_evidence(status={"state": "Error", "exit_code": 3}, facts=facts, log="x\n").rule == "program-failed"
