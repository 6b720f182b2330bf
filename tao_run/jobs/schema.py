"""The tables of the record, and the steps from one schema version to the next."""

from __future__ import annotations

import sqlite3

_STEPS = (
    # version 1
    """
    CREATE TABLE jobs(
        id TEXT PRIMARY KEY, name TEXT NOT NULL, platform TEXT NOT NULL, account TEXT NOT NULL,
        spec TEXT NOT NULL, created_at REAL NOT NULL, launcher TEXT NOT NULL, backend_id TEXT,
        results_dir TEXT NOT NULL DEFAULT '', group_id TEXT, split_id TEXT, retry_of TEXT,
        state TEXT NOT NULL, reason TEXT, message TEXT, native_state TEXT, exit_code INTEGER,
        observed_at REAL, ready INTEGER, total INTEGER, ended INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX jobs_by_time ON jobs(created_at);
    CREATE INDEX jobs_by_name ON jobs(name);
    CREATE INDEX jobs_by_group ON jobs(group_id) WHERE group_id IS NOT NULL;
    CREATE INDEX jobs_by_retry ON jobs(retry_of) WHERE retry_of IS NOT NULL;
    CREATE INDEX jobs_live ON jobs(ended) WHERE ended=0;
    CREATE TABLE changes(
        seq INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT NOT NULL REFERENCES jobs(id), state TEXT NOT NULL,
        reason TEXT, message TEXT, native_state TEXT, exit_code INTEGER, observed_at REAL NOT NULL);
    CREATE INDEX changes_by_job ON changes(job_id);
    CREATE TRIGGER changes_stay BEFORE UPDATE ON changes
        BEGIN SELECT RAISE(ABORT, 'state changes are append-only'); END;
    CREATE TRIGGER ended_stays BEFORE UPDATE OF state ON jobs WHEN OLD.ended=1 AND NEW.state<>OLD.state
        BEGIN SELECT RAISE(ABORT, 'a terminal state never changes'); END;
    CREATE TABLE groups(
        id TEXT PRIMARY KEY, name TEXT NOT NULL, members TEXT NOT NULL, created_at REAL NOT NULL);
    """,
)
SCHEMA_VERSION = len(_STEPS)


def migrate(db: sqlite3.Connection) -> None:
    """Bring the file to the newest version, in one transaction; safe when many processes try at once."""
    db.execute("PRAGMA journal_mode=WAL")  # file systems without shared memory keep their rollback journal
    db.execute("BEGIN IMMEDIATE")
    with db:  # commits, or rolls back whatever goes wrong
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        for step in _STEPS[version:]:
            for statement in _statements(step):
                db.execute(statement)
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _statements(script: str) -> list[str]:
    found, part = [], ""
    for piece in script.split(";"):
        part += piece + ";"
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found
