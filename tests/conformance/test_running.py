"""A job runs as it was asked: states, exit codes, exact arguments and environment, ranks."""

from __future__ import annotations

import re

import pytest

from tao_run.jobs.model import JobState
from tests.conformance.bench import Bench
from tests.conformance.hostile import ARGUMENTS, VALUES, hexed

# prints each argument as hexadecimal digits; needs nothing but bash
PRINT_ARGUMENTS = r'for a in "$@"; do printf "arg:"; printf "%s" "$a" | od -An -tx1 -v | tr -d " \n"; echo; done'


def test_exit_zero_is_complete(bench: Bench) -> None:
    job, status = bench.run("echo hello; exit 0")
    assert status.state is JobState.COMPLETE
    assert status.exit_code in (0, None)
    assert status.native_state
    assert bench.store.get(job.id).status.state is JobState.COMPLETE


@pytest.mark.parametrize("code", [1, 3, 42])
def test_exit_code_is_the_commands_own(bench: Bench, code: int) -> None:
    _, status = bench.run(f"exit {code}")
    assert (status.state, status.exit_code) == (JobState.ERROR, code)


def test_death_by_signal_is_an_error_with_128_plus_n(bench: Bench) -> None:
    _, status = bench.run("kill -KILL $$")
    assert (status.state, status.exit_code) == (JobState.ERROR, 137)


def test_failure_inside_a_pipe_of_commands_is_bashs_verdict(bench: Bench) -> None:
    _, status = bench.run("false; true")
    assert status.state is JobState.COMPLETE


def test_running_is_seen_while_it_runs(bench: Bench) -> None:
    job = bench.submit("sleep 5")
    assert bench.wait(job, JobState.RUNNING).state is JobState.RUNNING
    assert bench.wait(job).state is JobState.COMPLETE
    states = [change.state for change in bench.store.history(job.id)]
    assert states[0] is JobState.PENDING
    assert states[-2:] == [JobState.RUNNING, JobState.COMPLETE]


def test_arguments_arrive_untouched(bench: Bench) -> None:
    job, status = bench.run(["/bin/bash", "-c", PRINT_ARGUMENTS, "bash", *ARGUMENTS])
    assert status.state is JobState.COMPLETE
    assert bench.texts(job) == [f"arg:{hexed(argument)}" for argument in ARGUMENTS]


def test_bash_text_arrives_untouched(bench: Bench) -> None:
    text = "x='it'\"'\"'s $5'; echo \"$x\"; echo $((6*7)); cat <<'END'\n  {a} $b `c`\nEND\n"
    job, status = bench.run(text)
    assert status.state is JobState.COMPLETE
    assert bench.texts(job) == ["it's $5", "42", "  {a} $b `c`"]


def test_environment_arrives_untouched(bench: Bench) -> None:
    show = "; ".join(
        f'printf "{name}:"; printf "%s" "${name}" | od -An -tx1 -v | tr -d " \\n"; echo' for name in VALUES
    )
    job, status = bench.run(show, env=dict(VALUES))
    assert status.state is JobState.COMPLETE
    assert bench.texts(job) == [f"{name}:{hexed(value)}" for name, value in VALUES.items()]


def test_job_id_is_in_the_environment(bench: Bench) -> None:
    job, _ = bench.run('echo "id=$TAO_JOB_ID"')
    assert bench.texts(job) == [f"id={job.id}"]


def test_ranks_know_each_other(bench: Bench) -> None:
    if not bench.rig.multi_node:
        pytest.skip("one node only")
    job, status = bench.run(
        'echo "$NODE_RANK/$NNODES world=$WORLD_SIZE gpus=$NUM_GPU_PER_NODE master=$MASTER_ADDR:$MASTER_PORT"', nodes=2
    )
    assert status.state is JobState.COMPLETE
    texts = sorted(bench.texts(job))
    assert [text.split(" master=")[0] for text in texts] == ["0/2 world=2 gpus=0", "1/2 world=2 gpus=0"]
    masters = {text.split(" master=")[1] for text in texts}
    assert len(masters) == 1
    assert re.fullmatch(r"[\w.-]+:\d+", masters.pop())


def test_one_failing_rank_fails_the_job(bench: Bench) -> None:
    if not bench.rig.multi_node:
        pytest.skip("one node only")
    _, status = bench.run('test "$NODE_RANK" = 0 || exit 9; sleep 1', nodes=2)
    assert (status.state, status.exit_code) == (JobState.ERROR, 9)


def test_replicas_are_listed_by_rank(bench: Bench) -> None:
    nodes = 2 if bench.rig.multi_node else 1
    job = bench.submit("sleep 6", nodes=nodes)
    bench.wait(job, JobState.RUNNING)
    replicas = bench.platform.replicas(bench.store.get(job.id))
    assert [replica.rank for replica in replicas] == list(range(nodes))
    assert len({replica.name for replica in replicas}) == nodes


def test_many_jobs_are_polled_in_few_requests(bench: Bench) -> None:
    from tao_run.platforms.lifecycle import observe

    jobs = [bench.submit("sleep 2") for _ in range(8)]
    before = bench.rig.requests()
    observe(bench.platform, bench.store, [bench.store.get(job.id) for job in jobs])
    after = bench.rig.requests()
    for job in jobs:
        assert bench.wait(job).state is JobState.COMPLETE
    if before is not None and after is not None:
        assert after - before <= bench.rig.poll_bound


def test_time_limit_ends_the_job(bench: Bench) -> None:
    if not getattr(bench.rig, "enforces_max_time", True):
        pytest.skip("the backend's own limits are too coarse for a test")
    _, status = bench.run("sleep 300", max_time=getattr(bench.rig, "short_time", 3))
    assert status.state is JobState.ERROR
    assert status.reason
