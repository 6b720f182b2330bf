"""What is told of a job when slurmctld has forgotten it: by accounting, by its own record, or honestly nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace

from tao_run.jobs.model import JobState
from tests.platforms.slurm.conftest import Site


def test_accounting_and_the_exit_record_tell_what_the_queue_told(site: Site) -> None:
    job, canceled = site.submit("kill -KILL $$"), site.submit("true", options={"hold": True})
    site.adapter().cancel(canceled)
    queue = [site.ended(job), site.ended(canceled)]
    site.until(job, lambda _: "FAILED" in site.cluster.run("sacct", "-X", "-n", "-j", str(job.backend_id)))
    site.cluster.forget(str(job.backend_id))
    past = site.look(job, canceled)
    assert [(s.state, s.exit_code, s.message) for s in past] == [(s.state, s.exit_code, s.message) for s in queue]
    assert past[0].exit_code == 137  # sacct alone says 9:0
    assert past[1].native_state.startswith("CANCELLED by ")
    (site.directory(job) / "job-id").unlink()
    assert site.adapter().find(job) == job.backend_id  # by its name, in accounting


def test_a_number_given_to_another_job_is_not_ours(site: Site) -> None:
    other = site.submit("true", options={"hold": True})
    ours = replace(site.build("true"), backend_id=other.backend_id)
    status = site.look(ours)[0]
    assert (status.state, status.reason) == (JobState.UNKNOWN, "Gone")
    site.adapter().cancel(ours)
    assert site.look(other)[0].state is JobState.PENDING


def test_without_accounting_the_jobs_own_record_tells(plain: Site) -> None:
    good = plain.submit("true", options={"container": "none"})
    bad = plain.submit("exit 4", options={"container": "none"})
    lost = plain.submit("true", options={"container": "none"})
    for job in (good, bad, lost):
        plain.ended(job)
    shutil.rmtree(plain.directory(lost))
    for job in (good, bad, lost):
        plain.cluster.forget(str(job.backend_id))
    states = plain.look(good, bad, lost)
    assert [(status.state, status.exit_code) for status in states] == [
        (JobState.COMPLETE, 0),
        (JobState.ERROR, 4),
        (JobState.UNKNOWN, None),
    ]
    assert "keeps no accounting" in states[2].message
    assert not states[2].state.terminal
