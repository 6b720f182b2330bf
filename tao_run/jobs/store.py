"""The record of jobs on this machine: SQLite in the user-state directory, written before anything is launched."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tao_run.errors import NoSuchJob, RecordError, UsageError
from tao_run.jobs.model import ID_LENGTH, Job, JobState, JobStatus
from tao_run.jobs.schema import SCHEMA_VERSION, migrate
from tao_run.redact import redact
from tao_run.userpaths import home, own_path

_BUSY_SECONDS = 60
_SHORTEST_PREFIX = 4
_LITTLE = 1024 * 1024  # bytes: less is a full disk to SQLite, which asks for more than it writes


def state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """TAO_RUN_STATE_DIR, else `tao-run` in the platform's user-state directory (XDG_STATE_HOME)."""
    environ = os.environ if environ is None else environ
    named = environ.get("TAO_RUN_STATE_DIR")
    if named:
        return own_path(named)  # absolute: a job's supervisor works elsewhere
    base = environ.get("XDG_STATE_HOME")
    return (own_path(base) if base else home() / ".local" / "state") / "tao-run"


class Store:
    """Jobs, their state changes (append-only) and groups.

    Many processes may use it at once. Terminal states never change. Raises RecordError when the file or the
    disk is at fault; what was recorded before stays.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or state_dir()
        self.path = self.directory / "jobs.db"
        self._db: sqlite3.Connection | None = None
        self._owner = os.getpid()
        self._lock = threading.RLock()

    # -- writing -------------------------------------------------------------------------------------------

    def add(self, job: Job, launcher: str) -> None:
        """Record a job that is about to be launched by process `launcher`."""
        spec = json.dumps(dict(job.spec), ensure_ascii=False)
        with self._write() as db:
            db.execute(
                "INSERT INTO jobs(id, name, platform, account, spec, created_at, results_dir, group_id,"
                " split_id, retry_of, launcher, state, reason) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (job.id, job.name, job.platform, job.account, spec, job.created_at.timestamp(),
                 job.results_dir, job.group, job.split_id, job.retry_of, launcher, JobState.PENDING.value,
                 "Submitting"),
            )  # fmt: skip
            _append_change(db, job.id, JobStatus(JobState.PENDING, "Submitting", observed_at=job.created_at))

    def launched(self, job_id: str, backend_id: str) -> None:
        """Record that the backend has confirmed the job. The first confirmation stays."""
        with self._write() as db:
            db.execute(
                "UPDATE jobs SET backend_id=?, reason='' WHERE id=? AND backend_id IS NULL",
                (backend_id, job_id),
            )

    def unconfirmed(self, job_id: str) -> None:
        """Record that the launching process no longer waits for an answer: whoever looks next finds out."""
        with self._write() as db:
            db.execute("UPDATE jobs SET launcher='::' WHERE id=? AND backend_id IS NULL", (job_id,))

    def observe(self, job_id: str, status: JobStatus) -> Job:
        """Record an observation and return the job as it is known then. Terminal states never change."""
        return self.observe_many({job_id: status})[job_id]

    def observe_many(self, statuses: Mapping[str, JobStatus]) -> dict[str, Job]:
        """`observe` for many jobs in one transaction."""
        with self._write() as db:
            for job_id, status in statuses.items():
                _observe(db, job_id, status)
            return {job_id: _job(_row(db, job_id)) for job_id in statuses}

    def add_group(self, group_id: str, name: str, members: Sequence[Mapping[str, Any]]) -> None:
        """Record a group with the requests of all its members, before any of them is submitted."""
        with self._write() as db:
            db.execute(
                "INSERT INTO groups(id, name, members, created_at) VALUES(?,?,?,?)",
                (group_id, name, json.dumps(list(members)), datetime.now(timezone.utc).timestamp()),
            )

    # -- reading -------------------------------------------------------------------------------------------

    def get(self, job_id: str) -> Job:
        """A job by its whole id. Raises NoSuchJob."""
        with self._read() as db:
            return _job(_row(db, job_id))

    def launcher(self, job_id: str) -> str:
        """Which process recorded the job (`host:pid:start`)."""
        with self._read() as db:
            return str(_row(db, job_id)["launcher"])

    def resolve(self, reference: str) -> Job:
        """A job by id, unique id prefix (4 or more), unique name, `@last` or `@-N`. Raises NoSuchJob, UsageError."""
        reference = _storable(reference)
        with self._read() as db:
            rows = _matches(db, reference)
        if len(rows) == 1:
            return _job(rows[0])
        if rows:
            raise UsageError(
                f"{reference!r} fits {len(rows)} jobs: {', '.join(row['name'] for row in rows[:5])}",
                "give more of the id",
            )
        raise NoSuchJob(f"no job {reference!r} in the record", "`tao-run status --all` lists what is recorded here")

    def recent(self, limit: int | None = 20) -> list[Job]:
        """The newest jobs, newest first; all of them without a limit."""
        with self._read() as db:
            rows = db.execute("SELECT * FROM jobs ORDER BY rowid DESC LIMIT ?", (-1 if limit is None else limit,))
            return [_job(row) for row in rows]

    def live(self) -> list[Job]:
        """All jobs that are not known to have ended, oldest first."""
        with self._read() as db:
            return [_job(row) for row in db.execute("SELECT * FROM jobs WHERE ended=0 ORDER BY created_at, id")]

    def in_group(self, group: str) -> list[Job]:
        """The jobs of a group, by group id or name, oldest first. Raises NoSuchJob."""
        with self._read() as db:
            found = _group(db, group)
            rows = db.execute("SELECT * FROM jobs WHERE group_id=? ORDER BY created_at, id", (found["id"],))
            return [_job(row) for row in rows]

    def group_members(self, group: str) -> tuple[str, list[dict[str, Any]]]:
        """A group's id and the recorded requests of all its members. Raises NoSuchJob."""
        with self._read() as db:
            found = _group(db, group)
        return str(found["id"]), list(json.loads(found["members"]))

    def retries_of(self, job_id: str) -> list[Job]:
        """The jobs that repeat `job_id`, oldest first."""
        with self._read() as db:
            rows = db.execute("SELECT * FROM jobs WHERE retry_of=? ORDER BY created_at, id", (job_id,))
            return [_job(row) for row in rows]

    def history(self, job_id: str) -> list[JobStatus]:
        """Every state change seen of a job, oldest first."""
        with self._read() as db:
            rows = db.execute("SELECT * FROM changes WHERE job_id=? ORDER BY seq", (job_id,)).fetchall()
        return [_status(row) for row in rows]

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._db is not None:
            self._db.close()
            self._db = None

    # -- the file ------------------------------------------------------------------------------------------

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._faults():
            yield self._connection()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._faults():
            db = self._connection()
            db.execute("BEGIN IMMEDIATE")
            with db:  # commits, or rolls back whatever goes wrong
                yield db

    def _connection(self) -> sqlite3.Connection:
        if self._db is not None and self._owner != os.getpid():
            self._db = None  # a forked child must not use its parent's connection
        if self._db is None:
            self._owner = os.getpid()
            self._db = self._open()
        return self._db

    def _open(self) -> sqlite3.Connection:
        _private_directory(self.directory)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        db.row_factory = sqlite3.Row
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            db.close()
            raise RecordError(f"{self.path} was written by a newer tao-run", "upgrade tao-run on this machine")
        if version < SCHEMA_VERSION:
            migrate(db)
        db.execute("PRAGMA synchronous=FULL")
        return db

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise _record_error(self.path, error) from None


def _private_directory(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(directory.stat().st_mode) & 0o077:
        directory.chmod(0o700)


def _record_error(path: Path, error: Exception) -> RecordError:
    text = str(error)
    if "full" in text or getattr(error, "errno", None) == errno.ENOSPC or ("disk I/O" in text and _is_full(path)):
        return RecordError(
            f"no space left for the record {path}", "free some space and repeat; what was not recorded was not launched"
        )
    if "malformed" in text or "not a database" in text:
        return RecordError(
            f"the record {path} is damaged and was left as it is",
            f"keep it, move it aside (mv {path} {path}.damaged) and repeat; running jobs are not affected",
        )
    if "locked" in text:
        return RecordError(f"the record {path} stays locked by another process", "end that process, or wait")
    return RecordError(f"the record {path} cannot be used: {text}", "check the directory's owner, mode and disk")


def _is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _LITTLE
    except OSError:
        return False


def _observe(db: sqlite3.Connection, job_id: str, status: JobStatus) -> None:
    before = _row(db, job_id)
    if before["ended"]:
        return
    status = _clean(status)
    seen = (status.observed_at or datetime.now(timezone.utc)).timestamp()
    db.execute(
        "UPDATE jobs SET state=?, reason=?, message=?, native_state=?, exit_code=?, observed_at=?, ready=?,"
        " total=?, ended=? WHERE id=?",
        (status.state.value, status.reason, status.message, status.native_state, status.exit_code, seen,
         status.ready, status.total, int(status.state.terminal), job_id),
    )  # fmt: skip
    if (before["state"], before["reason"], before["native_state"]) != (
        status.state.value,
        status.reason,
        status.native_state,
    ):
        _append_change(db, job_id, status)


def _append_change(db: sqlite3.Connection, job_id: str, status: JobStatus) -> None:
    at = (status.observed_at or datetime.now(timezone.utc)).timestamp()
    db.execute(
        "INSERT INTO changes(job_id, state, reason, message, native_state, exit_code, observed_at)"
        " VALUES(?,?,?,?,?,?,?)",
        (
            job_id,
            status.state.value,
            status.reason,
            status.message,
            status.native_state,
            status.exit_code,
            at,
        ),
    )


def _clean(status: JobStatus) -> JobStatus:
    from dataclasses import replace

    return replace(status, reason=redact(status.reason), message=redact(status.message))


def _row(db: sqlite3.Connection, job_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute("SELECT * FROM jobs WHERE id=?", (job_id,)).fetchone()
    if row is None:
        raise NoSuchJob(f"no job {job_id!r} in the record", "`tao-run status --all` lists what is recorded here")
    return row


def _group(db: sqlite3.Connection, group: str) -> sqlite3.Row:
    group = _storable(group)
    rows = db.execute("SELECT * FROM groups WHERE id=? OR name=? ORDER BY created_at DESC", (group, group)).fetchall()
    if not rows:
        raise NoSuchJob(f"no group {group!r} in the record", "`tao-run status --all` shows the groups of jobs")
    first: sqlite3.Row = rows[0]
    return first


def _matches(db: sqlite3.Connection, reference: str) -> list[sqlite3.Row]:
    if reference.startswith("@"):
        return _by_position(db, reference)
    exact = db.execute("SELECT * FROM jobs WHERE id=? OR name=?", (reference, reference)).fetchall()
    if exact:
        return exact
    wanted = reference.lower()
    start = end = ""
    if _SHORTEST_PREFIX <= len(wanted) <= ID_LENGTH and all(c in "0123456789abcdef" for c in wanted):
        start, end = wanted, wanted + "g"
    # a word that is both the name of one job and the beginning of another's id is not unique
    return db.execute(
        "SELECT * FROM jobs WHERE (id >= ? AND id < ?) OR json_extract(spec, '$.name')=? LIMIT 6",
        (start, end, reference),
    ).fetchall()


def _storable(text: str) -> str:
    """`text` as the record could hold it: bytes of an argument that are no text become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _by_position(db: sqlite3.Connection, reference: str) -> list[sqlite3.Row]:
    position = re.fullmatch(r"@-([1-9][0-9]{0,8})", "@-1" if reference == "@last" else reference)
    if position is None:
        raise UsageError(f"{reference!r} names no job", "use @last or @-2 for the one before it")
    # in the order of submission, whatever the clock was set to between two of them
    return db.execute("SELECT * FROM jobs ORDER BY rowid DESC LIMIT 1 OFFSET ?", (int(position[1]) - 1,)).fetchall()


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def _status(row: sqlite3.Row) -> JobStatus:
    columns = row.keys()
    return JobStatus(
        state=JobState(row["state"]),
        reason=row["reason"] or "",
        message=row["message"] or "",
        native_state=row["native_state"] or "",
        exit_code=row["exit_code"],
        observed_at=_time(row["observed_at"]),
        ready=row["ready"] if "ready" in columns else None,
        total=row["total"] if "total" in columns else None,
    )


def _job(row: sqlite3.Row) -> Job:
    return Job(
        id=row["id"],
        name=row["name"],
        platform=row["platform"],
        account=row["account"],
        spec=json.loads(row["spec"]),
        created_at=_time(row["created_at"]) or datetime.now(timezone.utc),
        backend_id=row["backend_id"],
        results_dir=row["results_dir"],
        group=row["group_id"],
        split_id=row["split_id"],
        retry_of=row["retry_of"],
        status=_status(row),
    )
