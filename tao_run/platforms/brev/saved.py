"""What is kept of a job on this machine when its rented instance is deleted: the log and what docker knew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from tao_run.jobs.model import JobState, JobStatus, LogLine, LogQuery
from tao_run.platforms.streams import last_lines
from tao_run.redact import redact


class Saved:
    """The keepsake of one job, below the directory of the record."""

    def __init__(self, record: Path, job_id: str) -> None:
        self.directory = record / "brev" / job_id

    @property
    def exists(self) -> bool:
        """Whether the log was saved to its end."""
        return (self.directory / "log.jsonl").exists()

    def write(self, lines: Iterable[LogLine], facts: dict[str, Any]) -> None:
        """Keep a log and facts, readable by the user only."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self.directory / "log.part"
        part.touch(0o600)
        with part.open("w", encoding="utf-8") as file:
            for line in lines:
                kept = {**asdict(line), "text": redact(line.text), "time": line.time and line.time.isoformat()}
                file.write(json.dumps(kept) + "\n")
        self._facts.touch(0o600)
        self._facts.write_text(json.dumps(facts), encoding="utf-8")
        part.replace(self.directory / "log.jsonl")

    @property
    def _facts(self) -> Path:
        return self.directory / "facts.json"

    def facts(self) -> dict[str, Any]:
        """What was kept besides the log; empty if nothing was."""
        try:
            return dict(json.loads(self._facts.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}

    def status(self) -> JobStatus | None:
        """How the job had ended when this was kept; the record may have missed it. None if nothing was kept."""
        kept = self.facts().get("status")
        return None if kept is None else JobStatus(**{**kept, "state": JobState(kept["state"])})

    def logs(self, query: LogQuery) -> Iterator[LogLine]:
        """The lines of a query."""
        yield from last_lines(self._since(query.since), query.tail)

    def _since(self, since: datetime | None) -> Iterator[LogLine]:
        with (self.directory / "log.jsonl").open(encoding="utf-8") as file:
            for text in file:
                kept = json.loads(text)
                kept["time"] = datetime.fromisoformat(kept["time"]) if kept["time"] else None
                if since is None or kept["time"] is None or kept["time"] >= since:
                    yield LogLine(**kept)
