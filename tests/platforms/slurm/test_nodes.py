"""Many nodes and many jobs: ranks find each other, exit codes by rank, two hundred jobs in one command."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tao_run.analysis import analyze
from tao_run.jobs.model import JobState
from tao_run.platforms.lifecycle import cancel, observe
from tests.platforms.slurm.conftest import Site

# What torch's TCP store does: rank 0 listens on MASTER_ADDR:MASTER_PORT, all others say who they are.
RENDEZVOUS = r"""python3 - <<'END'
import os, socket, time
rank, world = int(os.environ["NODE_RANK"]), int(os.environ["WORLD_SIZE"])
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(where) as server:
        peers = []
        for _ in range(world - 1):
            peer, _ = server.accept()
            peers.append((peer.recv(100).decode(), peer))
        for name, peer in peers:
            peer.sendall(f"hello {name}".encode())
        print("all here:", *sorted(name for name, _ in peers))
else:
    for attempt in range(100):
        try:
            peer = socket.create_connection(where, timeout=10)
            break
        except OSError:
            time.sleep(0.1)
    peer.sendall(f"{rank}@{socket.gethostname()}".encode())
    print(peer.recv(100).decode())
END"""


def test_ranks_of_four_nodes_meet_over_tcp(site: Site) -> None:
    job = site.submit(RENDEZVOUS, nodes=4, gpus=2)
    assert site.ended(job).state is JobState.COMPLETE
    assert sorted(site.texts(job)) == [
        "all here: 1@node2 2@node3 3@node4",
        "hello 1@node2",
        "hello 2@node3",
        "hello 3@node4",
    ]


def test_a_rank_sees_torchruns_names_and_none_of_slurms_layout(site: Site) -> None:
    job = site.submit(
        "env | grep -E '^(NNODES|NODE_RANK|NUM_GPU|CUDA_VIS|SLURM_NTASKS|SLURM_PROCID|SLURM_JOB_ID|SLURM_TIME|LC_ALL)'",
        gpus=2,
    )
    site.ended(job)
    assert sorted(site.texts(job)) == [
        "CUDA_VISIBLE_DEVICES=0,1",
        "NNODES=1",
        "NODE_RANK=0",
        "NUM_GPU_PER_NODE=2",
        f"SLURM_JOB_ID={job.backend_id}",
    ]


def test_the_first_rank_that_fails_gives_the_exit_code_and_replicas_tell_theirs(site: Site) -> None:
    job = site.submit('test "$NODE_RANK" != 2 || { sleep 1; echo bad luck; exit 42; }; sleep 60', nodes=3)
    assert site.ended(job).exit_code == 42
    replicas = site.adapter().replicas(job)
    assert [(replica.rank, replica.node) for replica in replicas] == [(0, "node1"), (1, "node2"), (2, "node3")]
    assert replicas[2].exit_code == 42
    assert replicas[2].phase == "Error"
    assert replicas[0].exit_code is None  # ended by SLURM because of rank 2
    assert [replica.node_group for replica in replicas] == ["batch"] * 3


@pytest.mark.parametrize("nodes", [1, 2])
def test_that_srun_ends_the_others_is_not_taken_for_the_cause(site: Site, nodes: int) -> None:
    fault = "raise ValueError('a fault of the program')"
    job = site.submit(f'[ "$NODE_RANK" != {nodes - 1} ] || exec python3 -c "{fault}"; sleep 60', nodes=nodes)
    status = site.ended(job)
    found = analyze(site.adapter().evidence(replace(job, status=status)))
    assert found is not None
    assert (found.rule, found.err_class, found.retryable) == ("python-exception", "ERR_PROGRAM", False)


def test_replicas_of_a_waiting_job_say_why_it_waits(site: Site) -> None:
    job = site.submit("true", options={"hold": True}, nodes=2)
    replicas = site.adapter().replicas(job)
    assert [(replica.node, replica.issue_reason) for replica in replicas] == [("", "JobHeldUser")] * 2
    assert "scontrol release" in replicas[0].issue_message


def test_two_hundred_jobs_are_watched_with_one_command_a_tick(site: Site) -> None:
    jobs = [site.build("true") for _ in range(200)]
    names = " ".join(job.name for job in jobs)
    wrap = "sbatch --parsable --hold --output=/dev/null --job-name=$name --wrap true"
    ids = site.cluster.as_user(f"for name in {names}; do {wrap}; done").split()
    for job, backend_id in zip(jobs, ids, strict=True):
        site.store.add(job, "here:1:1")
        site.store.launched(job.id, backend_id)
    adapter = site.adapter()
    recorded = [site.store.get(job.id) for job in jobs]
    before = site.cluster.sessions()
    seen = observe(adapter, site.store, recorded)
    assert site.cluster.sessions() - before == 1
    assert {job.status.reason for job in seen} == {"JobHeldUser"}
    site.clear()
    assert {job.status.state for job in observe(adapter, site.store, seen)} == {JobState.CANCELED}


def test_cancel_ends_every_process_and_tells_the_truth(site: Site) -> None:
    job = site.submit("trap '' TERM; sleep 300 & while :; do sleep 1; done", nodes=2)
    site.running(job)
    status = cancel(site.adapter(), site.store, site.store.get(job.id)).status
    assert (status.state, status.native_state.split()[0]) == (JobState.CANCELED, "CANCELLED")
    assert site.directory(job).exists()
    assert site.adapter().cancel(replace(job, status=status), delete=True).state is JobState.CANCELED
    assert not site.directory(job).exists()
