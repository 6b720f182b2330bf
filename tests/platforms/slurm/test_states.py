"""Every end and every wait that this cluster can produce, produced and read right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tao_run.jobs.model import Job, JobState, JobStatus
from tao_run.jobs.store import Store
from tests.platforms.slurm.conftest import Site
from tests.services.slurm import HOME, Cluster

NEVER_MIND = "sleep 600"
EAT_MEMORY = "python3 -c 'x = bytearray(600_000_000); print(len(x))'"

# reason -> words that must be in the message
WAITS = {
    "Resources": "no nodes are free",
    "Priority": "higher priority",
    "PartitionTimeLimit": "above the partition's",
    "PartitionConfig": "fewer nodes",
    "PartitionDown": "choose another partition",
    "JobHeldUser": "scontrol release",
    "JobHeldAdmin": "administrator",
    "BeginTime": "start time",
    "QOSMaxGRESPerUser": "GPUs per user",
    "QOSMaxJobsPerUserLimit": "jobs per user",
    "AssocGrpGRES": "the account allows no more GPUs",
    "Dependency": "another job to end",
    "DependencyNeverSatisfied": "ended the wrong way",
}


@pytest.fixture(scope="module")
def crowded(slurm_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(slurm_cluster, Store(tmp_path_factory.mktemp("state")), HOME / "states")
    yield site
    site.clear()
    slurm_cluster.resume_nodes()
    site.store.close()


@pytest.fixture(scope="module")
def waiting(crowded: Site) -> dict[str, JobStatus]:
    """One job for each reason, all waiting at once behind a job that has three of the four nodes."""
    site, held = crowded, {}
    failed = site.submit("exit 1")
    hog = site.submit(NEVER_MIND, nodes=3, options={"exclusive": True, "nodelist": "node[1-3]"})
    one = site.submit(NEVER_MIND, options={"qos": "onejob", "nodelist": "node4"})
    site.running(one)
    ends = {"Dependency": f"afterok:{hog.backend_id}", "DependencyNeverSatisfied": f"afterok:{failed.backend_id}"}
    asked = {
        "Resources": {"nodes": 4, "options": {"exclusive": True}},
        "Priority": {"options": {"sbatch": "--nice=1000", "time": "3h"}},
        "PartitionTimeLimit": {"options": {"partition": "short", "time": "10"}},
        "PartitionConfig": {"nodes": 99},
        "PartitionDown": {"options": {"partition": "down"}},
        "JobHeldUser": {"options": {"hold": True}},
        "JobHeldAdmin": {"options": {"begin": "now+1hour"}},
        "BeginTime": {"options": {"begin": "now+2hours"}},
        "QOSMaxGRESPerUser": {"gpus": 4, "options": {"qos": "limited"}},
        "QOSMaxJobsPerUserLimit": {"options": {"qos": "onejob"}},
        "AssocGrpGRES": {"gpus": 1, "options": {"account": "blocked"}},
        **{name: {"options": {"dependency": text}} for name, text in ends.items()},
    }
    held = {name: site.submit(NEVER_MIND, **more) for name, more in asked.items()}
    site.cluster.run("scontrol", "hold", str(held["JobHeldAdmin"].backend_id))
    seen = _settled(site, held)
    site.clear()
    return seen


def _settled(site: Site, jobs: dict[str, Job]) -> dict[str, JobStatus]:
    """The statuses once the scheduler has given every job its reason, or after ten seconds."""
    deadline = time.monotonic() + 10
    while True:
        seen = dict(zip(jobs, site.look(*jobs.values()), strict=True))
        if all(status.reason.startswith(name) for name, status in seen.items()) or time.monotonic() > deadline:
            return seen
        time.sleep(0.5)


@pytest.mark.parametrize("reason", WAITS)
def test_why_a_job_waits_is_told_in_words(waiting: dict[str, JobStatus], reason: str) -> None:
    status = waiting[reason]
    assert status.state is JobState.PENDING
    assert status.native_state == "PENDING"
    assert status.reason.startswith(reason)
    assert WAITS[reason] in status.message


@pytest.fixture(scope="module")
def ended(crowded: Site, waiting: dict[str, JobStatus]) -> dict[str, JobStatus]:
    """One job for each way to end, all at once."""
    site = crowded
    jobs = {
        "complete": site.submit("true", options={"nodelist": "node1"}),
        "exit": site.submit("exit 3", options={"nodelist": "node1"}),
        "signal": site.submit("kill -SEGV $$", options={"nodelist": "node1"}),
        "memory": site.submit(EAT_MEMORY, options={"nodelist": "node1", "mem": "100M"}),
        "timeout": site.submit(NEVER_MIND, options={"nodelist": "node1", "time": "1"}),
        "canceled": site.submit(NEVER_MIND, options={"nodelist": "node1"}),
        "canceled early": site.submit("true", options={"hold": True}),
        "deadline": site.submit(NEVER_MIND, options={"time": "1", "sbatch": "--deadline=now+5"}),
        "node": site.submit(NEVER_MIND, options={"nodelist": "node2"}),
        "preempted": site.submit(NEVER_MIND, options={"partition": "spare", "nodelist": "node3", "exclusive": True}),
        "no directory": site.submit("true", options={"hold": True}),
        "suspended": site.submit(NEVER_MIND, options={"nodelist": "node1"}),
    }
    again = {"partition": "requeue", "nodelist": "node4", "exclusive": True, "requeue": True}
    requeued = site.submit('[ -n "$SLURM_RESTART_COUNT" ] || sleep 600; exit 7', options=again)
    for name in ("timeout", "canceled", "node", "preempted", "suspended"):
        site.running(jobs[name])
    site.running(requeued)
    _interfere(site, {name: str(job.backend_id) for name, job in jobs.items()})
    site.directory(jobs["no directory"]).rename(site.base / f"moved-{jobs['complete'].id}")
    site.cluster.run("scontrol", "release", str(jobs["no directory"].backend_id))
    waits = site.submit("true", options={"nodelist": "node2"})
    for node in ("node3", "node4"):
        site.submit("sleep 2", options={"partition": "short", "nodelist": node, "exclusive": True})
    seen = {name: site.ended(job, 75) for name, job in jobs.items() if name != "suspended"}
    seen["suspended"] = site.look(jobs["suspended"])[0]
    seen["requeued"] = site.look(requeued)[0]
    site.cluster.run("scontrol", "update", f"JobId={requeued.backend_id}", "StartTime=now")
    seen["second run"] = site.ended(requeued)
    seen["node is down"] = site.until(waits, lambda status: status.reason == "ReqNodeNotAvail")
    return seen


def _interfere(site: Site, ids: dict[str, str]) -> None:
    run = site.cluster.run
    soon = (datetime.now() + timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%S")
    run("scontrol", "update", f"JobId={ids['timeout']}", f"EndTime={soon}")
    site.cluster.as_user(f"scancel {ids['canceled']} {ids['canceled early']}")
    run("scontrol", "suspend", ids["suspended"])
    for state in ("DOWN", "DRAIN"):  # a node that is only down comes back by itself
        run("scontrol", "update", "NodeName=node2", f"State={state}", "Reason=test")


ENDS = {
    "complete": (JobState.COMPLETE, "COMPLETED", 0, ""),
    "exit": (JobState.ERROR, "FAILED", 3, "exited with 3"),
    "signal": (JobState.ERROR, "FAILED", 139, "signal 11"),
    "memory": (JobState.ERROR, "FAILED", 137, "signal 9"),
    "timeout": (JobState.ERROR, "TIMEOUT", None, "time limit"),
    "canceled": (JobState.CANCELED, "CANCELLED", None, "cancelled"),
    "canceled early": (JobState.CANCELED, "CANCELLED", None, "cancelled"),
    "deadline": (JobState.ERROR, "DEADLINE", None, "deadline"),
    "node": (JobState.ERROR, "NODE_FAIL", None, "node failed"),
    "preempted": (JobState.ERROR, "PREEMPTED", None, "preempted"),
    "no directory": (JobState.ERROR, "FAILED", None, "log or working directory"),
    "suspended": (JobState.PAUSED, "SUSPENDED", None, "suspended"),
    "node is down": (JobState.PENDING, "PENDING", None, "down, drained or reserved"),
    "second run": (JobState.ERROR, "FAILED", 7, "exited with 7"),
    "requeued": (JobState.PENDING, "PENDING", None, "requeued 1x"),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_job_ends_is_told(crowded: Site, ended: dict[str, JobStatus], name: str) -> None:
    if name == "memory" and not crowded.cluster.cgroups:
        pytest.skip("memory limits are not enforced here: cgroup v1 cannot be written to")
    state, native, code, words = ENDS[name]
    status = ended[name]
    assert (status.state, status.native_state.split()[0], status.exit_code) == (state, native, code)
    assert words in status.message
