"""The log service: a job's log by time ranges, complete however long it is, in time order over all replicas.

`GET /logs` answers in the shape of Loki's `query_range`: per replica a list of `[ns, line]`, half-open
`[start, end)`, at most `limit` records, no cursor. Paging moves a time bound and drops what was seen at it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple

from tao_run.errors import ProtocolError
from tao_run.jobs.model import LogLine
from tao_run.platforms.lepton.api import ALIVE_AND_ARCHIVE, LeptonApi
from tao_run.platforms.lepton.workers import rank_of

#: records per request, the most that the service takes
PAGE = 10_000
NS = 1_000_000_000
_REPLICA_LABELS = ("replica", "replica_id", "pod")


class Record(NamedTuple):
    """One line of the log service: nanoseconds since the epoch, replica id, text."""

    at: int
    replica: str
    text: str

    def line(self) -> LogLine:
        """As the rest of the program knows it."""
        time = datetime.fromtimestamp(self.at / NS, timezone.utc)
        return LogLine(self.text, time, rank_of(self.replica), self.replica)


GAP = LogLine(f"more than {PAGE} lines carry one time stamp: some of them are not shown", kind="gap")


@dataclass(frozen=True)
class Selector:
    """Whose log: a job by id or an earlier attempt by name, and one replica or all (empty)."""

    job: str = ""
    attempt: str = ""
    replica: str = ""

    def params(self) -> dict[str, str]:
        """The query parameters."""
        named = {"job": self.job, "job_history_name": self.attempt, "replica": self.replica}
        return {key: value for key, value in named.items() if value}


class LogRange:
    """The log of one selector by time range; with `contains` only lines that hold that text, if the service filters."""

    def __init__(self, api: LeptonApi, selector: Selector, contains: str = "") -> None:
        self._api = api
        self._selector = selector
        self._filter = {"q": contains} if contains else {}

    def page(self, start: int, end: int, direction: str, limit: int = PAGE) -> list[Record]:
        """At most `limit` records of `[start, end)` in the direction's order: `forward` or `backward`."""
        answer = self._api.get(
            "/logs",
            start=start,
            end=end,
            limit=limit,
            direction=direction,
            timestamps="True",
            job_query_mode=ALIVE_AND_ARCHIVE,
            **self._selector.params(),
            **self._filter,
        )
        streams = _streams(answer)
        records = [record for stream in streams for record in stream]
        records.sort(key=lambda record: record.at, reverse=direction == "backward")
        return _complete_part(records, streams, limit, direction)

    def tail(self, start: int, end: int, count: int) -> list[Record]:
        """The last `count` records of `[start, end)`, oldest first."""
        found: list[Record] = []
        while len(found) < count and start < end:
            at_bound = Counter(record for record in found if record.at == end - 1)
            limit = min(count - len(found) + sum(at_bound.values()), PAGE)
            page = self.page(start, end, "backward", limit)
            fresh = _without(page, at_bound)
            if not fresh and len(page) < PAGE:
                break
            found.extend(fresh)
            end = fresh[-1].at + 1 if fresh else end - 1
        return found[:count][::-1]


class Cursor:
    """Reads a range forward, again and again, each record once.

    `lookback` (seconds) is how late a record may arrive behind newer ones of other replicas and still be read.
    """

    def __init__(self, log: LogRange, start: int, lookback: float = 0.0) -> None:
        self._log = log
        self._lookback = int(lookback * NS)
        self._position = start
        self._newest = start
        self._seen: Counter[Record] = Counter()
        self.count = 0

    def read(self, end: int) -> Iterator[Record | LogLine]:
        """The records before `end` that were not read yet; a `GAP` where some cannot be had."""
        start = self._position
        while start < end:
            page = self._log.page(start, end, "forward")
            fresh = _without(page, Counter({r: n for r, n in self._seen.items() if r.at >= start}))
            for record in fresh:
                self._remember(record)
                yield record
            if len(page) >= PAGE and page[-1].at == page[0].at:
                yield GAP
                start = page[-1].at + 1
            elif not fresh:
                break
            else:
                start = page[-1].at
        self._forget()

    def resume_after(self, records: list[Record]) -> None:
        """Count records that were read in another way (the log's last ones, oldest first), and go on after them."""
        for record in records:
            self._remember(record)
        self._forget()

    def _remember(self, record: Record) -> None:
        self.count += 1
        self._seen[record] += 1
        if record.at > self._newest:
            self._newest = record.at
            if not self._lookback:
                self._seen = Counter({record: 1})

    def _forget(self) -> None:
        self._position = max(self._position, self._newest - self._lookback)
        self._seen = Counter({r: n for r, n in self._seen.items() if r.at >= self._position})


def _without(page: list[Record], seen: Counter[Record]) -> list[Record]:
    """The records of a page that were not seen, equal ones counted."""
    if not seen:
        return page
    left = Counter(seen)
    fresh = []
    for record in page:
        if left[record] > 0:
            left[record] -= 1
        else:
            fresh.append(record)
    return fresh


def _complete_part(records: list[Record], streams: list[list[Record]], limit: int, direction: str) -> list[Record]:
    """Without the records beyond a stream that was cut at the limit: what lies between is not known yet."""
    cut = [stream[-1].at for stream in streams if len(stream) >= limit]
    if not cut or len(streams) == 1:
        return records
    if direction == "forward":
        return [record for record in records if record.at <= min(cut)]
    return [record for record in records if record.at >= max(cut)]


def _streams(answer: Any) -> list[list[Record]]:
    try:
        data = answer["data"] if answer != {} else None
        result = (data or {}).get("result") or []
        return [_stream(item) for item in result if item.get("values")]
    except (AttributeError, TypeError, ValueError, IndexError, KeyError):
        raise ProtocolError(
            "Lepton's log service answered in a shape that is not its own", "try again in a minute"
        ) from None


def _stream(item: Mapping[str, Any]) -> list[Record]:
    labels = item.get("stream") or {}
    replica = next((str(labels[name]) for name in _REPLICA_LABELS if labels.get(name)), "")
    return [Record(int(value[0]), replica, str(value[1]).rstrip("\r\n")) for value in item["values"]]
