"""Run folders: what a workflow of one or more jobs did, in files that are whole at any moment."""

from __future__ import annotations

import json
import os
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_run.clock import Clock, SystemClock
from tao_run.errors import RecordError, TaoRunError
from tao_run.redact import redact

if TYPE_CHECKING:
    from tao_run.jobs.model import Job, LogLine
    from tao_run.platforms.base import Platform

LOG_LINES = 2000


class ActionWorkflow:
    """A folder `<root>/<name>/<time>/` with metadata, status, events, active jobs, latest logs and analysis.

    Every file but the events is replaced as a whole (written beside, then renamed), so that a reader never
    sees half of one; events are appended a line at a time. Known secrets are removed from all of them.
    A folder can be opened again by its path, after a restart or from another machine. Raises RecordError if
    the folder cannot be written.
    """

    def __init__(self, root: Path | str, name: str, *, clock: Clock | None = None, folder: Path | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self.name = name
        self.folder = folder or _new_folder(Path(root) / name, self._clock.now())

    @classmethod
    def open(cls, folder: Path | str, *, clock: Clock | None = None) -> ActionWorkflow:
        """An existing run folder. Raises RecordError if it is none."""
        path = Path(folder)
        if not (path / "metadata.json").exists():
            raise RecordError(f"{path} is no run folder: it has no metadata.json")
        return cls(path.parent.parent, path.parent.name, clock=clock, folder=path)

    def write_metadata(self, **facts: Any) -> None:
        """What the run is: model, action, platform, image, whatever the caller knows. Merged with what is there."""
        known = self._read("metadata.json")
        started = known.get("started_at") or self._now()
        self._write("metadata.json", {**known, "name": self.name, "started_at": started, **facts})

    def write_status(self, state: str, message: str = "", **facts: Any) -> None:
        """Where the whole run is, also added to the events."""
        status = {"state": state, "message": message, "updated_at": self._now(), **facts}
        self._write("status.json", status)
        self.event("status", **status)

    def event(self, kind: str, **facts: Any) -> None:
        """Append one event to status_events.jsonl."""
        line = redact(json.dumps({"time": self._now(), "event": kind, **_plain(facts)}, ensure_ascii=False)) + "\n"
        try:
            with (self.folder / "status_events.jsonl").open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise _fault(self.folder, error) from None

    def update(self, jobs: Iterable[Job]) -> None:
        """Record the jobs of the run: those not known to have ended stay active, Unknown among them."""
        listed = list(jobs)
        before = {item["id"]: item["state"] for item in self._read("jobs.json").get("jobs", [])}
        for job in listed:
            if before.get(job.id) != job.status.state.value:
                self.event("job", id=job.id, name=job.name, state=job.status.state, reason=job.status.reason)
        rows = [_job_row(job) for job in listed]
        self._write("jobs.json", {"jobs": rows})
        active = [row for row, job in zip(rows, listed, strict=True) if not job.status.state.terminal]
        self._write("active_jobs.json", {"updated_at": self._now(), "jobs": active})

    def write_logs(self, lines: Iterable[LogLine]) -> None:
        """The last lines of the newest log, replacing those before."""
        last = deque(lines, maxlen=LOG_LINES)
        self._replace("latest_logs.txt", redact("".join(line.text + "\n" for line in last)))

    def write_analysis(self, analysis: Mapping[str, Any] | None) -> None:
        """Why a job failed, as `get_failure_analysis` gives it."""
        self._write("failure_analysis.json", analysis or {})

    def capture(self, platform: Platform, job: Job) -> None:
        """Logs and, if the job has failed, its analysis. What the platform does not give is noted as an event."""
        from tao_run.jobs.model import JobState, LogQuery
        from tao_run.jobs.retry import analysis_of

        try:
            self.write_logs(platform.logs(job, LogQuery(tail=LOG_LINES)))
            if job.status.state is JobState.ERROR:
                found = analysis_of(platform, job, self._clock.now())
                self.write_analysis(None if found is None else found.to_dict())
        except TaoRunError as error:
            if isinstance(error, RecordError):
                raise
            self.event("not_captured", id=job.id, message=error.message)

    def _now(self) -> str:
        return self._clock.now().isoformat()

    def _read(self, name: str) -> dict[str, Any]:
        try:
            data = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RecordError(f"{self.folder / name} cannot be read: {error}") from None
        return dict(data)

    def _write(self, name: str, data: Mapping[str, Any]) -> None:
        self._replace(name, redact(json.dumps(_plain(data), ensure_ascii=False, indent=2)) + "\n")

    def _replace(self, name: str, text: str) -> None:
        try:
            handle, beside = tempfile.mkstemp(dir=self.folder, prefix=f".{name}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                Path(beside).replace(self.folder / name)
            finally:  # after the renaming there is nothing left of this name
                Path(beside).unlink(missing_ok=True)
        except OSError as error:
            raise _fault(self.folder, error) from None


def _new_folder(parent: Path, now: datetime) -> Path:
    """A folder of its own for each run, also when two start in the same second."""
    base = now.strftime("%Y%m%dT%H%M%SZ")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1000):
            folder = parent / (base if number == 0 else f"{base}-{number}")
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return folder
    except OSError as error:
        raise _fault(parent, error) from None
    raise RecordError(f"no new run folder could be made in {parent}")


def _fault(folder: Path, error: OSError) -> RecordError:
    return RecordError(f"{folder} cannot be written: {error.strerror or error}", "check its owner, mode and free space")


def _job_row(job: Job) -> dict[str, Any]:
    status = {key: value for key, value in asdict(job.status).items() if value not in (None, "")}
    return {"id": job.id, "name": job.name, "platform": job.platform, "split_id": job.split_id, **status}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)
