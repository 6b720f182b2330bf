"""SLURM's states, reasons, durations, host lists and image references, read and written."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from tao_run.errors import UsageError
from tao_run.jobs.model import JobState
from tao_run.platforms.slurm.images import apptainer_image, cache_name, enroot_uri, pyxis_image
from tao_run.platforms.slurm.nodelist import expand
from tao_run.platforms.slurm.reasons import REASONS, explain, reason_name
from tao_run.platforms.slurm.states import STATES, job_state, state_name, state_words
from tao_run.platforms.slurm.tables import SQUEUE_FIELDS, exit_status, parse_sacct, parse_squeue
from tao_run.platforms.slurm.times import slurm_duration, slurm_seconds, time_limit

DIGEST = "sha256:" + "ab" * 32

# `man squeue`, JOB STATE CODES, of 22.05, 23.11, 24.11 and 25.05 together
_STATES = """BOOT_FAIL CANCELLED COMPLETED CONFIGURING COMPLETING DEADLINE EXPEDITING FAILED LAUNCH_FAILED NODE_FAIL
OUT_OF_MEMORY PENDING POWER_UP_NODE PREEMPTED RECONFIG_FAIL REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING RESV_DEL_HOLD
REVOKED RUNNING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED TIMEOUT UPDATE_DB"""

# src/common/job_state_reason.c of Slurm 25.05: the limits
_LIMITS = """QOSGrpCpuLimit QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit QOSGrpJobsLimit QOSGrpMemLimit
QOSGrpNodeLimit QOSGrpSubmitJobsLimit QOSGrpWallLimit QOSMaxCpuPerJobLimit QOSMaxCpuMinutesPerJobLimit
QOSMaxNodePerJobLimit QOSMaxWallDurationPerJobLimit QOSMaxCpuPerUserLimit QOSMaxJobsPerUserLimit
QOSMaxNodePerUserLimit QOSMaxSubmitJobPerUserLimit QOSMinCpuNotSatisfied AssocGrpCpuLimit AssocGrpCPUMinutesLimit
AssocGrpCPURunMinutesLimit AssocGrpJobsLimit AssocGrpMemLimit AssocGrpNodeLimit AssocGrpSubmitJobsLimit
AssocGrpWallLimit AssocMaxJobsLimit AssocMaxCpuPerJobLimit AssocMaxCpuMinutesPerJobLimit AssocMaxNodePerJobLimit
AssocMaxWallDurationPerJobLimit AssocMaxSubmitJobLimit AssocGrpUnknown AssocGrpUnknownMinutes
AssocGrpUnknownRunMinutes AssocMaxUnknownPerJob AssocMaxUnknownPerNode AssocMaxUnknownMinutesPerJob
AssocMaxCpuPerNode AssocGrpMemMinutes AssocGrpMemRunMinutes AssocMaxMemPerJob AssocMaxMemPerNode
AssocMaxMemMinutesPerJob AssocGrpNodeMinutes AssocGrpNodeRunMinutes AssocMaxNodeMinutesPerJob AssocGrpEnergy
AssocGrpEnergyMinutes AssocGrpEnergyRunMinutes AssocMaxEnergyPerJob AssocMaxEnergyPerNode
AssocMaxEnergyMinutesPerJob AssocGrpGRES AssocGrpGRESMinutes AssocGrpGRESRunMinutes AssocMaxGRESPerJob
AssocMaxGRESPerNode AssocMaxGRESMinutesPerJob AssocGrpLicense AssocGrpLicenseMinutes AssocGrpLicenseRunMinutes
AssocMaxLicensePerJob AssocMaxLicenseMinutesPerJob AssocGrpBB AssocGrpBBMinutes AssocGrpBBRunMinutes
AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBBMinutesPerJob QOSGrpUnknown QOSGrpUnknownMinutes
QOSGrpUnknownRunMinutes QOSMaxUnknownPerJob QOSMaxUnknownPerNode QOSMaxUnknownPerUser QOSMaxUnknownMinutesPerJob
QOSMinUnknown QOSMaxCpuPerNode QOSGrpMemoryMinutes QOSGrpMemoryRunMinutes QOSMaxMemoryPerJob QOSMaxMemoryPerNode
QOSMaxMemoryPerUser QOSMaxMemoryMinutesPerJob QOSMinMemory QOSGrpNodeMinutes QOSGrpNodeRunMinutes
QOSMaxNodeMinutesPerJob QOSMinNode QOSGrpEnergy QOSGrpGRES QOSGrpGRESMinutes QOSGrpGRESRunMinutes QOSMaxGRESPerJob
QOSMaxGRESPerNode QOSMaxGRESPerUser QOSMaxGRESMinutesPerJob QOSMinGRES QOSGrpLicense QOSMaxLicensePerJob
QOSMaxLicensePerUser QOSMinLicense QOSGrpBB QOSMaxBBPerUser QOSMinBB MaxBBPerAccount MaxCpuPerAccount
MaxEnergyPerAccount MaxGRESPerAccount MaxNodePerAccount MaxLicensePerAccount MaxMemoryPerAccount
MaxUnknownPerAccount MaxJobsPerAccount MaxSubmitJobsPerAccount AssocGrpBilling AssocGrpBillingMinutes
AssocMaxBillingPerJob QOSGrpBilling QOSMaxBillingPerUser MaxBillingPerAccount QOSMinBilling"""
EVERY_STATE, EVERY_LIMIT = _STATES.split(), _LIMITS.split()


@pytest.mark.parametrize("native", EVERY_STATE)
def test_every_state_of_slurm_has_a_place(native: str) -> None:
    assert job_state(native) is STATES[native][0] is not JobState.UNKNOWN


def test_the_table_has_no_state_that_slurm_does_not_have() -> None:
    assert sorted(STATES) == sorted(EVERY_STATE)


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("CANCELLED by 1001", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("NODE_FAIL", "NODE_FAIL"),
        (" RUNNING ", "RUNNING"),
    ],
)
def test_states_are_read_as_the_commands_print_them(printed: str, name: str) -> None:
    assert state_name(printed) == name


def test_a_state_of_a_later_slurm_is_unknown_and_shown_as_it_is() -> None:
    assert job_state("TELEPORTED") is JobState.UNKNOWN
    assert not job_state("TELEPORTED").terminal
    assert "TELEPORTED" in state_words("TELEPORTED")
    assert job_state("RE+") is JobState.UNKNOWN  # cut off too far to be one state


@pytest.mark.parametrize("native", [*REASONS, *EVERY_LIMIT])
def test_every_reason_of_slurm_is_put_in_words(native: str) -> None:
    reason = explain(native)
    assert reason.words and reason.advice
    assert "SLURM says" not in reason.words


def test_reasons_say_what_to_do_and_whether_waiting_helps() -> None:
    assert explain("PartitionTimeLimit").stuck
    assert explain("DependencyNeverSatisfied").stuck
    assert not explain("Priority").stuck
    user = explain("QOSMaxGRESPerUser")
    assert "GPUs per user" in user.words and not user.stuck
    job = explain("QOSMaxGRESPerJob")
    assert "more GPUs than the QOS allows per job" in job.words and job.stuck
    assert "the account" in explain("AssocGrpGRES").words


def test_a_reason_with_nodes_behind_it_and_one_that_is_not_known() -> None:
    assert "reserved" in explain("ReqNodeNotAvail, UnavailableNodes:node[1-2]").words
    assert "Whatever" in explain("Whatever").words


def test_reasons_that_are_sentences_have_a_name() -> None:
    spoken = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
    assert reason_name(spoken) == "ReqNodeNotAvail"
    assert reason_name("ReqNodeNotAvail, UnavailableNodes:node1") == "ReqNodeNotAvail"
    assert reason_name("(launch failed requeued held)") == "JobLaunchFailure"
    assert explain("launch failed requeued held").stuck


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("5:00", 300),
        ("04:00:00", 14400),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("1-00:00:01", 86401),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_slurm_durations(text: str, seconds: int | None) -> None:
    assert slurm_seconds(text) == seconds


def test_time_limits_as_users_write_them() -> None:
    assert time_limit("4h") == time_limit("240") == time_limit("4:00:00") == 14400
    assert time_limit("1d") == time_limit("1-00") == 86400
    for wrong in ("soon", "0", "UNLIMITED", "4x"):
        with pytest.raises(UsageError):
            time_limit(wrong)


@pytest.mark.parametrize("seconds", [1, 59, 3600, 86399, 86400, 200000])
def test_durations_are_written_as_slurm_reads_them(seconds: int) -> None:
    assert slurm_seconds(slurm_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node1", ["node1"]),
        ("node[1-3]", ["node1", "node2", "node3"]),
        ("gpu[08-10,12],login1", ["gpu08", "gpu09", "gpu10", "gpu12", "login1"]),
        ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
        ("dgx-[a,b]-x", ["dgx-a-x", "dgx-b-x"]),
        ("None assigned", []),
        ("(null)", []),
        ("", []),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("reference", "pyxis", "apptainer"),
    [
        ("nvcr.io/nvidia/tao/tao:6.0", "nvcr.io#nvidia/tao/tao:6.0", "docker://nvcr.io/nvidia/tao/tao:6.0"),
        ("nvcr.io#nvidia/tao:6", "nvcr.io#nvidia/tao:6", "docker://nvcr.io/nvidia/tao:6"),
        ("ubuntu:22.04", "ubuntu:22.04", "docker://ubuntu:22.04"),
        ("bitnami/x:1", "bitnami/x:1", "docker://bitnami/x:1"),
        ("docker.io/library/ubuntu", "library/ubuntu", "docker://library/ubuntu"),
        ("localhost:5000/a/b:1", "localhost:5000#a/b:1", "docker://localhost:5000/a/b:1"),
        (f"nvcr.io/nvidia/x:1@{DIGEST}", f"nvcr.io#nvidia/x:{DIGEST}", f"docker://nvcr.io/nvidia/x@{DIGEST}"),
        (f"ubuntu@{DIGEST}", f"registry-1.docker.io#library/ubuntu:{DIGEST}", f"docker://ubuntu@{DIGEST}"),
        ("/lustre/images/tao.sqsh", "/lustre/images/tao.sqsh", "/lustre/images/tao.sqsh"),
    ],
)
def test_image_references(reference: str, pyxis: str, apptainer: str) -> None:
    assert pyxis_image(reference) == pyxis
    assert apptainer_image(reference) == apptainer
    assert enroot_uri(reference) == (pyxis if pyxis.startswith("/") else f"docker://{pyxis}")


def test_what_is_no_image_reference_is_refused() -> None:
    for wrong in ("Nvidia/Tao:1", "two words", ":1", "host#"):
        with pytest.raises(UsageError):
            pyxis_image(wrong)


def test_cache_names_differ_where_references_differ() -> None:
    names = {cache_name(reference) for reference in ("a/b:1", "a-b:1", "a/b-1", "a/b:1@" + DIGEST)}
    assert len(names) == 4
    assert all("/" not in name and name.endswith(".sqsh") for name in names)


def test_squeue_rows_with_noise_between() -> None:
    row = "12|train-1|FAILED|1792|1796060948|1796060948|1796060949|2|node[1-2]|batch|NonZeroExitCode|"
    rows = parse_squeue(["Welcome!", row, "", "13|cut"])
    assert [(r.job_id, r.state, r.exit_code, r.signal, r.restarts) for r in rows] == [("12", "FAILED", 7, None, 2)]
    assert rows[0].ended == datetime.fromtimestamp(1796060949, timezone.utc)
    assert rows[0].reason == "NonZeroExitCode"
    assert len(SQUEUE_FIELDS) == 11


def test_sacct_rows_the_job_row_decides() -> None:
    rows = parse_sacct(
        [
            "12|train|CANCELLED by 1001|0:15|1796060948|Unknown|1796060949|None assigned|batch|None",
            "12.batch|batch|COMPLETED|0:0|1796060948|1796060948|1796060949|node1||",
        ]
    )
    assert [(r.job_id, r.state, r.signal, r.started, r.nodes) for r in rows] == [
        ("12", "CANCELLED by 1001", 15, None, "None assigned")
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("3:0", (3, None)),
        ("0:9", (0, 9)),
        ("768", (3, None)),
        ("9", (0, 9)),
        ("4021", (0, 53)),
        ("0", (0, None)),
        ("", (None, None)),
    ],
)
def test_exit_codes_in_both_forms(text: str, code: tuple[int | None, int | None]) -> None:
    assert exit_status(text) == code
