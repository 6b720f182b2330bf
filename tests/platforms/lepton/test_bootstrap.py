"""The translation of worker variables, run by a real bash that has no network tools at all."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tao_run.platforms.lepton.bootstrap import Around, container_command, payload_variables, prelude

SHOW = 'echo "$MASTER_ADDR $MASTER_PORT $NNODES $NODE_RANK $WORLD_SIZE $NUM_GPU_PER_NODE [$WORKER_ADDRS]"'


def run(script: str, path: str = "/nowhere", **env: str) -> str:
    done = subprocess.run(
        ["/bin/bash", "-c", script], env={"PATH": path, **env}, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.strip()


def lepton_env(workers: int, index: int) -> dict[str, str]:
    return {
        "LEPTON_JOB_TOTAL_WORKERS": str(workers),
        "LEPTON_JOB_WORKER_INDEX": str(index),
        "LEPTON_JOB_WORKER_PREFIX": "worker",
        "LEPTON_SUBDOMAIN": "job-x9k2-job-svc",
    }


def test_three_workers_seen_from_the_second() -> None:
    seen = run(prelude(8) + SHOW, **lepton_env(3, 1))
    workers = "worker-1.job-x9k2-job-svc,worker-2.job-x9k2-job-svc"
    assert seen == f"worker-0.job-x9k2-job-svc 29400 3 1 3 8 [{workers}]"


def test_one_worker_is_its_own_master() -> None:
    assert run(prelude(1) + SHOW, **lepton_env(1, 0)) == "127.0.0.1 29400 1 0 1 1 []"


def test_outside_lepton_it_is_one_node() -> None:
    assert run(prelude(0) + SHOW) == "127.0.0.1 29400 1 0 1 0 []"


def test_the_gpu_count_may_come_from_the_shape() -> None:
    assert run(prelude(None) + SHOW, LEPTON_RESOURCE_ACCELERATOR_NUM="4").split()[5] == "4"


def test_a_port_that_the_user_set_stays() -> None:
    assert run(prelude(1) + SHOW, MASTER_PORT="1234").split()[1] == "1234"


def test_it_works_under_errexit_and_nounset() -> None:
    assert run("set -euo pipefail\n" + prelude(2) + SHOW, **lepton_env(2, 0)).startswith("worker-0.")


def test_the_torchrun_command_of_the_documents_runs_as_it_stands() -> None:
    command = (
        "torchrun --nnodes=$NNODES --nproc-per-node=8 --node-rank=$NODE_RANK "
        "--master-addr=$MASTER_ADDR --master-port=$MASTER_PORT train.py"
    )
    seen = run(prelude(8) + 'torchrun() { echo "$@"; }\n' + command, **lepton_env(4, 2))
    assert seen == (
        "--nnodes=4 --nproc-per-node=8 --node-rank=2 "
        "--master-addr=worker-0.job-x9k2-job-svc --master-port=29400 train.py"
    )


def test_a_payload_arrives_as_a_file_and_leaves_the_environment() -> None:
    payload = os.urandom(300_000)
    parts = payload_variables(payload)
    assert len(parts) > 2
    script = (
        prelude(1, len(parts)) + 'sha256sum < "$TAO_RUN_PAYLOAD"; env | grep -c PAYLOAD_PART; rm "$TAO_RUN_PAYLOAD"'
    )
    digest, count, *_ = run(script + "\ntrue", path=os.environ["PATH"], **parts).replace("-", "").split()
    import hashlib

    assert (digest, count) == (hashlib.sha256(payload).hexdigest(), "0")


def test_a_payload_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        payload_variables(b"x" * 1_000_000)


def around(script: str, max_time: int | None = None) -> subprocess.Popen[str]:
    command = container_command(script, Around("tao-run:abc:", 1, max_time=max_time))
    return subprocess.Popen(command, env={"PATH": os.environ["PATH"]}, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("echo hi", 0, "hi\n"),
        ("echo hi; exit 7", 7, "hi\ntao-run:abc: exit 7 \n"),
        ("printf half; exit 2", 2, "halftao-run:abc: exit 2 \n"),
        ("kill -KILL $$", 137, "tao-run:abc: exit 137 \n"),
        ("no-such-command 2>/dev/null", 127, "tao-run:abc: exit 127 \n"),
        ("trap 'echo cleaned up' EXIT; exit 3", 3, "cleaned up\ntao-run:abc: exit 3 \n"),
    ],
)
def test_the_exit_code_is_kept_and_a_bad_one_is_logged(script: str, code: int, said: str) -> None:
    with around(script) as process:
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, said)


def test_the_script_is_told_to_stop_and_may_clean_up() -> None:
    with around("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "bye\n")


def test_a_script_that_dies_of_the_stop_says_so() -> None:
    with around("echo up; exec sleep 60") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (143, "tao-run:abc: exit 143 stopped\n")


def test_the_time_limit_ends_it_with_124() -> None:
    with around("echo up; exec sleep 60", max_time=1) as process:
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (124, "up\ntao-run:abc: exit 124 limited\n")


def test_a_script_within_its_time_limit_is_not_touched() -> None:
    with around("echo fine", max_time=60) as process:
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "fine\n")
