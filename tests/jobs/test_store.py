"""The record: terminal states stay, many processes at once, damaged files and full disks lose nothing."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import stat
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tao_run.errors import NoSuchJob, RecordError, UsageError
from tao_run.jobs.model import Job, JobState, JobStatus, job_name, new_id
from tao_run.jobs.schema import SCHEMA_VERSION
from tao_run.jobs.store import Store
from tao_run.redact import register

START = datetime(2030, 1, 1, tzinfo=timezone.utc)


def make_job(name: str = "train", minutes: int = 0, **more: object) -> Job:
    job_id = new_id()
    spec = {"name": name, "command": "echo hello", "platform": "local"}
    fields = {"id": job_id, "name": job_name(name, job_id), "platform": "local", "account": "here", "spec": spec}
    return Job(**{**fields, "created_at": START + timedelta(minutes=minutes), **more})  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state")


def test_a_job_comes_back_as_it_was_recorded(store: Store) -> None:
    job = make_job(results_dir="s3://b/r", split_id="3", retry_of=None, group="g")
    store.add(job, "host:1:2")
    back = Store(store.directory).get(job.id)
    assert (back.id, back.name, back.spec, back.created_at) == (job.id, job.name, job.spec, job.created_at)
    assert (back.results_dir, back.split_id, back.group) == ("s3://b/r", "3", "g")
    assert (back.status.state, back.status.reason) == (JobState.PENDING, "Submitting")
    assert back.request.command == "echo hello"
    assert store.launcher(job.id) == "host:1:2"


def test_the_first_confirmation_stays(store: Store) -> None:
    job = make_job()
    store.add(job, "h:1:1")
    store.launched(job.id, "backend-1")
    store.launched(job.id, "backend-2")
    assert store.get(job.id).backend_id == "backend-1"


@pytest.mark.parametrize("end", [JobState.COMPLETE, JobState.ERROR, JobState.CANCELED])
def test_terminal_states_never_change(store: Store, end: JobState) -> None:
    job = make_job()
    store.add(job, "h:1:1")
    store.observe(job.id, JobStatus(end, "Why", exit_code=3))
    for later in JobState:
        assert store.observe(job.id, JobStatus(later, "other")).status.state is end
    assert store.get(job.id).status.reason == "Why"


def test_the_file_itself_refuses_to_change_an_end_or_a_past(store: Store) -> None:
    job = make_job()
    store.add(job, "h:1:1")
    store.observe(job.id, JobStatus(JobState.ERROR))
    db = sqlite3.connect(store.path)
    with pytest.raises(sqlite3.Error, match="terminal"):
        db.execute("UPDATE jobs SET state='Complete'")
    with pytest.raises(sqlite3.Error, match="append-only"):
        db.execute("UPDATE changes SET state='Complete'")


def test_history_has_every_change_once(store: Store) -> None:
    job = make_job()
    store.add(job, "h:1:1")
    for state in (JobState.PENDING, JobState.RUNNING, JobState.RUNNING, JobState.COMPLETE):
        store.observe(job.id, JobStatus(state))
    states = [status.state.value for status in store.history(job.id)]
    assert states == ["Pending", "Pending", "Running", "Complete"]


def test_jobs_are_found_by_id_prefix_name_and_position(store: Store) -> None:
    old, new = make_job("old"), make_job("new", minutes=1)
    for job in (old, new):
        store.add(job, "h:1:1")
    for reference in (old.id, old.id[:8], old.name, "old", "@-2"):
        assert store.resolve(reference).id == old.id
    assert store.resolve("@last").id == new.id
    assert [job.id for job in store.recent()] == [new.id, old.id]


@pytest.mark.parametrize("reference", ["nothing", "@-9", "ffff"])
def test_an_unknown_job_is_exit_code_5(store: Store, reference: str) -> None:
    store.add(make_job(id="0" * 16, name="train-0"), "h:1:1")
    with pytest.raises(NoSuchJob):
        store.resolve(reference)


@pytest.mark.parametrize("reference", ["@first", "@-0", "@-x", "@"])
def test_a_bad_position_says_how_to_write_it(store: Store, reference: str) -> None:
    with pytest.raises(UsageError, match="names no job"):
        store.resolve(reference)


def test_an_ambiguous_name_lists_the_jobs(store: Store) -> None:
    jobs = [make_job("same"), make_job("same", minutes=1)]
    for job in jobs:
        store.add(job, "h:1:1")
    with pytest.raises(UsageError) as raised:
        store.resolve("same")
    assert all(job.name in raised.value.message for job in jobs)


def test_groups_keep_their_members(store: Store) -> None:
    store.add_group("g1", "sweep", [{"command": "a"}, {"command": "b"}])
    member = make_job(group="g1")
    store.add(member, "h:1:1")
    assert store.group_members("sweep") == ("g1", [{"command": "a"}, {"command": "b"}])
    assert [job.id for job in store.in_group("sweep")] == [member.id]
    with pytest.raises(NoSuchJob):
        store.in_group("nothing")


def test_secret_values_never_reach_the_file(store: Store) -> None:
    register(["s3cr3t-value-of-a-test"])
    job = make_job()
    store.add(job, "h:1:1")
    store.observe(job.id, JobStatus(JobState.RUNNING, message="token s3cr3t-value-of-a-test refused"))
    store.close()
    assert b"s3cr3t-value-of-a-test" not in store.path.read_bytes()


def test_only_the_owner_can_read_it(store: Store) -> None:
    store.directory.mkdir(mode=0o755)
    store.add(make_job(), "h:1:1")
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def _add_some(directory: Path, count: int) -> None:
    store = Store(directory)
    for number in range(count):
        job = make_job(f"p{os.getpid()}", minutes=number)
        store.add(job, "h:1:1")
        store.observe(job.id, JobStatus(JobState.RUNNING))


def test_fifty_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add_some, args=(tmp_path / "state", 4)) for _ in range(50)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 50
    jobs = Store(tmp_path / "state").recent(None)
    assert len(jobs) == 200
    assert {job.status.state for job in jobs} == {JobState.RUNNING}


def test_a_damaged_file_is_named_and_left_alone(store: Store) -> None:
    store.add(make_job(), "h:1:1")
    store.close()
    damaged = b"this is no database" * 500
    store.path.write_bytes(damaged)
    for name in ("jobs.db-wal", "jobs.db-shm"):
        (store.directory / name).unlink(missing_ok=True)
    with pytest.raises(RecordError, match="damaged") as raised:
        Store(store.directory).recent()
    assert str(store.path) in raised.value.hint
    assert store.path.read_bytes() == damaged


def test_a_newer_file_is_refused(store: Store) -> None:
    store.recent()
    store.close()
    db = sqlite3.connect(store.path)
    db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    db.close()
    with pytest.raises(RecordError, match="newer"):
        Store(store.directory).recent()


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be used"):
        Store(tmp_path / "file" / "state").recent()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a small file system")
def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(small)], check=False)
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        store = Store(small / "state")
        kept = []
        with pytest.raises(RecordError, match="no space") as raised:
            for _ in range(500):
                job = make_job(spec={"command": "x" * 4000})
                store.add(job, "h:1:1")
                kept.append(job.id)
        assert raised.value.exit_code == 9
        assert {job.id for job in Store(small / "state").recent(None)} == set(kept)
        store.close()
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
