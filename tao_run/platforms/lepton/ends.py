"""How a job's workers ended, read from its log: Lepton tells no exit code, so our wrapper writes it there.

The line is `tao-run:<job id>: exit <code> [limited|stopped]`, and only written if the code is not 0. In the log
that users see it is a note; the rest of its line, if the script's last line had no newline, stays a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tao_run.jobs.model import JobState, JobStatus, LogLine, Replica
from tao_run.platforms.lepton.api import LeptonApi
from tao_run.platforms.lepton.logrange import LogRange, Selector

_WORDS = {
    "limited": "the time limit is reached",
    "stopped": "the platform told it to stop",
}
#: lines of one worker's log that may be marks: its end, once for each of a few restarts
MARKS_PER_WORKER = 4
_MOST_WORKERS_READ = 1_000


@dataclass(frozen=True)
class End:
    """The end of one worker: its exit code and, if it did not end by itself, why (`limited`, `stopped`)."""

    rank: int | None
    code: int
    why: str = ""


def mark(job_id: str) -> str:
    """How the line begins that tells an end."""
    return f"tao-run:{job_id}:"


class Marks:
    """Finds the marks of one job in log lines."""

    def __init__(self, job_id: str) -> None:
        self._mark = mark(job_id)
        self._pattern = re.compile(re.escape(self._mark) + r" exit (\d+) ?(\w*)\s*$")

    def present(self, line: LogLine) -> Iterator[LogLine]:
        """The line as users see it: a mark becomes a note."""
        found = self._pattern.search(line.text) if self._mark in line.text else None
        if found is None:
            yield line
            return
        if found.start():
            yield replace(line, text=line.text[: found.start()])
        why = _WORDS.get(found.group(2), "")
        text = f"exit code {found.group(1)}" + (f": {why}" if why else "")
        yield replace(line, text=text, kind="note")

    def read(self, api: LeptonApi, backend_id: str, start: int, end: int) -> list[End]:
        """The ends that were logged, the first one first: it is the cause, the others are its victims."""
        log = LogRange(api, Selector(backend_id), contains=self._mark)
        ends = []
        for record in log.page(start, end, "backward", _MOST_WORKERS_READ)[::-1]:
            found = self._pattern.search(record.text)
            if found:
                ends.append(End(record.line().rank, int(found.group(1)), found.group(2)))
        return ends


def trim(lines: Iterable[LogLine], count: int) -> list[LogLine]:
    """The last `count` lines, with the notes between and after them."""
    kept = list(lines) if count > 0 else []
    surplus = sum(line.kind == "line" for line in kept) - count
    while surplus > 0:
        surplus -= kept.pop(0).kind == "line"
    return kept


def explain(status: JobStatus, ends: list[End]) -> JobStatus:
    """The status of a failed job with the exit code of the worker that failed first."""
    if status.state is not JobState.ERROR or not ends:
        return status
    cause = ends[0]
    where = "" if cause.rank is None or (status.total or 1) == 1 else f"rank {cause.rank}: "
    why = _WORDS.get(cause.why, "")
    message = f"{where}exit code {cause.code}" + (f": {why}" if why else "")
    reason = {"limited": "TimeLimit", "stopped": "Evicted"}.get(cause.why, status.reason)
    return replace(status, exit_code=cause.code, reason=reason, message=message)


def ended_replicas(replicas: Iterable[Replica], state: JobState, ends: list[End]) -> list[Replica]:
    """Replicas of a job that has ended: Lepton keeps showing them as they were while it ran."""
    code = 0 if state is JobState.COMPLETE else None
    over = [replace(item, phase="Ended", ready=False, exit_code=code) for item in replicas]
    return with_codes(over, ends) if state is JobState.ERROR else over


def with_codes(replicas: Iterable[Replica], ends: list[End]) -> list[Replica]:
    """Replicas with the exit codes that were logged for their ranks, the latest one of each."""
    codes = {end.rank: end.code for end in ends}
    return [replace(item, exit_code=codes[item.rank]) if item.rank in codes else item for item in replicas]
