"""What stays of a job that cancel removes from the cluster: the end of its log, its workers and events, on disk."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from tao_run.errors import RecordError
from tao_run.jobs.model import Evidence, JobStatus, LogLine, NodeEvent, Replica

#: lines kept of one job; the older ones go with its pods
MOST_LINES = 100_000


class Keepsake:
    """A private directory per job. Raises RecordError when the disk is at fault."""

    def __init__(self, root: Path, job_id: str) -> None:
        self._directory = root / "kubernetes" / job_id
        self._log = self._directory / "log.jsonl"
        self._facts = self._directory / "evidence.json"

    @property
    def exists(self) -> bool:
        """Whether something was kept."""
        return self._facts.is_file()

    def append(self, lines: Iterable[LogLine]) -> int:
        """Add lines to the kept log; returns how many."""
        count = 0
        with _disk(), _private(self._log) as file:
            for line in lines:
                file.write(json.dumps(_plain(asdict(line))) + "\n")
                count += 1
        return count

    def keep(self, evidence: Evidence) -> None:
        """Write what was known of the job, in one step."""
        data = _plain({**asdict(evidence), "log_tail": [], "status": {}})
        with _disk():
            self._facts.unlink(missing_ok=True)
            with _private(self._facts) as file:
                file.write(json.dumps(data))

    def lines(self) -> Iterator[LogLine]:
        """The kept log."""
        with contextlib.suppress(FileNotFoundError), self._log.open(encoding="utf-8") as file:
            for text in file:
                data = json.loads(text)
                yield LogLine(**{**data, "time": _time(data["time"])})

    def evidence(self, status: JobStatus, log_tail: tuple[LogLine, ...]) -> Evidence:
        """What was kept, with today's status."""
        data = json.loads(self._facts.read_text(encoding="utf-8"))
        return Evidence(
            status=status,
            replicas=tuple(Replica(**entry) for entry in data["replicas"]),
            events=tuple(NodeEvent(**{**entry, "time": _time(entry["time"])}) for entry in data["events"]),
            log_tail=log_tail,
            facts=data["facts"],
        )

    def remove(self) -> None:
        """Forget the job."""
        shutil.rmtree(self._directory, ignore_errors=True)


@contextlib.contextmanager
def _private(path: Path) -> Iterator[Any]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
        yield file


@contextlib.contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordError(f"the log cannot be kept on this machine: {error.strerror}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
