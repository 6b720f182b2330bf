"""One pod's log, read as often as it takes: a cursor makes sure that no line comes twice and no loss is silent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from tao_run.errors import BackendRejected, NotFound
from tao_run.jobs.model import LogLine
from tao_run.platforms.kubernetes import names
from tao_run.platforms.kubernetes.client import Api
from tao_run.platforms.stamps import NANOSECONDS, PIECE, join_pieces, to_datetime
from tao_run.platforms.streams import LineSplitter

#: what a kubelet writes into the stream, without a time, when it cannot read the log itself
_KUBELET_FAULTS = ("unable to retrieve container logs", "failed to try resolving symlinks", "rpc error:")


class NotStarted(BackendRejected):
    """The container has not been started yet: there is no log."""

    code = "not_started"


@dataclass
class Cursor:
    """The time (ns since the epoch) of the last line handed out, and how many lines of just that time were."""

    at: int = 0
    count: int = 0

    def advance(self, at: int) -> None:
        self.count = self.count + 1 if at == self.at else 1
        self.at = at


def split_stamp(line: str) -> tuple[int | None, str]:
    """The time of a stamped line in ns and the line itself; None for a line that the kubelet did not stamp."""
    head, _, text = line.partition(" ")
    if len(head) < 20 or head[4] != "-" or head[10] != "T":
        return None, line
    whole, _, fraction = head.removesuffix("Z").partition(".")
    try:
        seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
        return seconds * NANOSECONDS + int(fraction[:9].ljust(9, "0") or 0), without_stamps(text)
    except ValueError:
        return None, line


def without_stamps(line: str) -> str:
    """A long line without the stamps that kubelets before 1.24 put before each piece that the engine stored."""
    if len(line) <= PIECE // 4:  # however many bytes its characters take
        return line
    return join_pieces(line.encode()).decode("utf-8", "replace")


class PodLog:
    """Reads the log of one pod. Each `read` goes on where the last one stopped, whatever ended it."""

    def __init__(self, api: Api, pod: str, rank: int | None, since: datetime | None = None) -> None:
        self.pod, self.rank = pod, rank
        #: whether the last `read` got an answer: silence after that is a quiet job, not an outage
        self.answered = False
        self._api = api
        self._since = since
        self._cursor = Cursor()

    def read(self, follow: bool, read_seconds: float, tail: int | None = None) -> Iterator[LogLine]:
        """Lines from the cursor on. `tail` counts only for the first read.

        Raises NotStarted, NotFound (the pod is gone), BackendUnreachable (also after `read_seconds` of
        silence: the log may have been rotated under the stream).
        """
        query = {"container": names.CONTAINER, "timestamps": "true", **({"follow": "true"} if follow else {})}
        resumed = self._cursor.at > 0
        self.answered = False
        if resumed:
            query["sinceTime"] = to_datetime(self._cursor.at).strftime("%Y-%m-%dT%H:%M:%SZ")
        elif self._since:
            query["sinceTime"] = self._since.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        if tail is not None and not resumed:
            query["tailLines"] = str(tail)
        try:
            yield from self._lines(query, read_seconds, resumed)
        except NotFound:
            raise
        except BackendRejected as error:
            raise NotStarted(error.message) from None

    def _lines(self, query: dict[str, str], read_seconds: float, resumed: bool) -> Iterator[LogLine]:
        splitter = LineSplitter()
        fresh = _Fresh(self._cursor) if resumed else None
        with self._api.log_stream(self.pod, query, read_seconds) as chunks:
            self.answered = True
            for chunk in chunks:
                for text in splitter.feed(chunk):
                    yield from self._line(text, fresh)
        # a last line without newline is whole only if the container has ended; else it comes again, longer
        if "follow" not in query:
            for text in splitter.finish():
                yield from self._line(text, fresh)

    def _line(self, raw: str, fresh: _Fresh | None) -> Iterator[LogLine]:
        at, text = split_stamp(raw)
        if at is None:
            if fresh is None or fresh.begun:
                yield LogLine(text, None, self.rank, self.pod, "gap" if text.startswith(_KUBELET_FAULTS) else "line")
            return
        if fresh is not None and not fresh.is_new(at):
            return
        if fresh is not None and fresh.lost:
            fresh.lost = False
            last = to_datetime(self._cursor.at).isoformat()
            text_of_gap = f"the log was rotated after {last}: lines may be missing here"
            yield LogLine(text_of_gap, to_datetime(at), self.rank, self.pod, "gap")
        if self._since is None or to_datetime(at) >= self._since:
            yield LogLine(text, to_datetime(at), self.rank, self.pod)
        self._cursor.advance(at)


class _Fresh:
    """Tells, in a stream that begins at the cursor's second, the lines that were not handed out before."""

    def __init__(self, cursor: Cursor) -> None:
        self._at, self._left = cursor.at, cursor.count
        self._anchored = False
        self.begun = False
        self.lost = False

    def is_new(self, at: int) -> bool:
        if at < self._at:
            return False
        if at == self._at and self._left > 0:
            self._left -= 1
            self._anchored = True
            return False
        if not self.begun:
            self.begun = True
            self.lost = not self._anchored
        return True
