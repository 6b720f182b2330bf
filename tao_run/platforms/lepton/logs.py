"""A job's log as it stands: all attempts, all replicas or one, from a time on, or the last lines."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tao_run.errors import UsageError
from tao_run.jobs.model import LogLine, LogQuery
from tao_run.platforms.lepton.api import ALIVE_AND_ARCHIVE, LeptonApi, job_path
from tao_run.platforms.lepton.documents import moment, number, part, parts, word
from tao_run.platforms.lepton.ends import MARKS_PER_WORKER, Marks, trim
from tao_run.platforms.lepton.faults import plain
from tao_run.platforms.lepton.logrange import NS, Cursor, LogRange, Record, Selector
from tao_run.platforms.lepton.workers import rank_of, read_replicas

_CLOCK_SKEW = timedelta(minutes=1)


@dataclass(frozen=True)
class Attempt:
    """One run of the job: Lepton may start a job again. `name` is empty for the current one."""

    name: str
    state: str
    start: int
    end: int


class JobLog:
    """The log of one job, from its document `job`. `created_at` is when we recorded it, `marks` what to present."""

    def __init__(self, api: LeptonApi, job: Mapping[str, Any], created_at: datetime, marks: Marks) -> None:
        self._api = api
        self.marks = marks
        self.job_id = word(part(job, "metadata").get("id"))
        self._job = job
        self._created_at = created_at

    def lines(self, query: LogQuery) -> Iterator[LogLine]:
        """What the log service has now. Raises UsageError for a replica that is not there."""
        replicas = self.replica_ids(query.replica)
        since = to_ns(query.since) if query.since else 0
        if query.tail is not None:
            yield from self._tail(self._attempts(), replicas, since, query.tail)
            return
        yield from self.earlier_attempts(replicas, since)
        yield from self._whole(self._attempts()[-1], replicas, since)

    def earlier_attempts(self, replicas: list[str], since: int = 0) -> Iterator[LogLine]:
        """The logs of the attempts before the current one, each with a note on how it ended."""
        *earlier, _ = attempts = self._attempts()
        for count, attempt in enumerate(earlier, 1):
            yield from self._whole(attempt, replicas, since)
            yield note(f"attempt {count} of {len(attempts)} ended: {plain(attempt.state)}")

    def replica_ids(self, wanted: str | None) -> list[str]:
        """The replica ids that a rank or a name stands for; `[""]`, all of them, if none is wanted.

        A rank that the job has and that has not started yet has none. Raises UsageError for any other.
        """
        if wanted is None:
            return [""]
        path = job_path(self.job_id, "replicas")
        replicas = read_replicas(self._api.rows(path, job_query_mode=ALIVE_AND_ARCHIVE))
        found = [r.name for r in replicas if wanted in (r.name, str(r.rank))]
        if found:
            return found
        if rank_of(wanted) is not None:
            return [wanted]  # an earlier incarnation: gone from the list, still in the log
        if wanted.isdecimal() and int(wanted) < self._workers:
            return []
        known = ", ".join(str(r.rank) for r in replicas) or "none yet"
        raise UsageError(f"the job has no replica {wanted!r}", f"there are: {known}")

    def start(self) -> int:
        """When the current attempt began, in ns, a little earlier for clocks that differ."""
        return self._attempts()[-1].start

    def now(self) -> int:
        """The end of a range that holds everything logged until now, in ns."""
        return to_ns(self._api.clock.now() + _CLOCK_SKEW)

    def _attempts(self) -> list[Attempt]:
        status = part(self._job, "status")
        attempts = [self._attempt(item, word(item.get("job_name"))) for item in parts(status, "job_history")]
        return [*(attempt for attempt in attempts if attempt.name), self._attempt(status, "", bool(attempts))]

    def _attempt(self, status: Mapping[str, Any], name: str, later: bool = False) -> Attempt:
        created = moment(status.get("creation_time"))
        if created is None:
            created = moment(part(self._job, "metadata").get("created_at")) or self._created_at
        start = created if later else min(created, self._created_at) - _CLOCK_SKEW
        return Attempt(name, word(status.get("state")), to_ns(start), self.now())

    def _selectors(self, attempt: Attempt, replicas: Iterable[str]) -> list[LogRange]:
        job = "" if attempt.name else self.job_id
        return [LogRange(self._api, Selector(job, attempt.name, replica)) for replica in replicas]

    def _whole(self, attempt: Attempt, replicas: list[str], since: int) -> Iterator[LogLine]:
        start = max(attempt.start, since)
        streams = [Cursor(log, start).read(attempt.end) for log in self._selectors(attempt, replicas)]
        merged = streams[0] if len(streams) == 1 else heapq.merge(*streams, key=_time_of)
        for item in merged:
            yield from self.marks.present(as_line(item))

    def _tail(self, attempts: list[Attempt], replicas: list[str], since: int, lines: int) -> Iterator[LogLine]:
        found: list[Record] = []
        count = self.with_marks(lines)
        for attempt in reversed(attempts):
            logs = self._selectors(attempt, replicas)
            start = max(attempt.start, since)
            wanted = count - len(found)
            records = [record for log in logs for record in log.tail(start, attempt.end, wanted)]
            records.sort(key=lambda record: record.at)
            found = records[-wanted:] + found if wanted > 0 else found
        yield from trim((shown for record in found for shown in self.marks.present(record.line())), lines)

    def with_marks(self, lines: int) -> int:
        """How many records to read so that `lines` of them are no marks."""
        return lines + self._workers * MARKS_PER_WORKER if lines > 0 else 0

    @property
    def _workers(self) -> int:
        return number(part(self._job, "spec").get("completions")) or 1


def as_line(item: Record | LogLine) -> LogLine:
    """A record as a line; notes and gaps stay what they are."""
    return item.line() if isinstance(item, Record) else item


def note(text: str) -> LogLine:
    """A line that we add."""
    return LogLine(text, kind="note")


def to_ns(time: datetime) -> int:
    """Nanoseconds since the epoch, exact to the microsecond."""
    return int(time.timestamp()) * NS + time.microsecond * 1000


def _time_of(item: Record | LogLine) -> int:
    return item.at if isinstance(item, Record) else 0
