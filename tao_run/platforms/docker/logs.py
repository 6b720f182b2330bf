"""The log of a container as lines: tail, since, and a follow that outlives restarts of the daemon."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Literal

from tao_run.errors import BackendUnreachable, NotFound
from tao_run.jobs.model import LogLine, LogQuery
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.streams import Assembler, Line, Piece, Seen, frames, terminal
from tao_run.platforms.stamps import NANOSECONDS, from_datetime, to_datetime

# A connection that died silently is noticed after this long without a line; then the stream is opened anew.
_STALL_SECONDS = 60.0
_FIRST_WAIT, _LONGEST_WAIT = 0.3, 5.0
_GIVE_UP_SECONDS = 900.0
_MOST_BREAKS = 30
_SLACK = 64  # pieces read beyond the lines asked for: one MiB of a long line
_ROTATED = "lines may be missing here: the engine rotated its log"
_REMOVED = "the container was removed, and its log with it"


class Stalled(Exception):
    """Nothing came for a while. The connection may be dead; the container may just be quiet."""


class ContainerLog:
    """One container's log. Nothing is read before it is asked for, and only a stretch is held in memory."""

    def __init__(self, daemon: Daemon, container: str, replica: str) -> None:
        self._daemon = daemon
        self._container = container
        self._replica = replica
        self._seen = Seen()
        self._lines = Assembler()
        self._breaks = 0  # how often the connection broke since the last new line

    def read(self, query: LogQuery) -> Iterator[LogLine]:
        """What is there now: the last `tail` lines, or all from `since` on. Raises NotFound."""
        if query.tail is not None:
            lines = self._last(query.tail, query)
            yield from map(self._labelled, lines[-query.tail :] if query.tail else [])
            return
        for piece in self._pieces({"since": _stamp(query)}):
            yield from map(self._labelled, self._lines.add(piece))
        yield from map(self._labelled, self._lines.rest())

    def follow(self, query: LogQuery) -> Iterator[LogLine]:
        """What is there and what comes, until the container has ended and all of its log was handed out."""
        self._seen = Seen(rotating=self._rotates())
        if query.tail is not None:
            yield from self._begin_at_tail(query)
        ended = False
        while not ended:
            ended = yield from self._follow_once(query)
        yield from map(self._labelled, self._lines.rest())

    # -- follow --------------------------------------------------------------------------------------------

    def _follow_once(self, query: LogQuery) -> Generator[LogLine, None, bool]:
        """One connection, to its end. Returns whether the container has ended and its log is drained."""
        try:
            running = self._running()
            yield from self._new_lines(running, query)
            return not running
        except Stalled:
            return False
        except NotFound:
            yield self._said(_REMOVED, "gap")
            return True
        except BackendUnreachable as error:
            self._breaks += 1
            if self._breaks > _MOST_BREAKS:
                raise
            if self._breaks == 1:
                yield self._said(f"{error.message}; waiting for it", "note")
            self._await_daemon()
            return False

    def _new_lines(self, follow: bool, query: LogQuery) -> Iterator[LogLine]:
        """What one connection brings and was not handed out before."""
        again = self._seen.rewind()
        since = f"{again // NANOSECONDS}.{again % NANOSECONDS:09d}" if again else _stamp(query)
        for piece in self._pieces({"since": since, "follow": int(follow)}):
            if not self._seen.is_new(piece):
                continue
            if not self._seen.joined:
                self._seen.joined = True
                yield self._said(_ROTATED, "gap")
            self._breaks = 0
            yield from map(self._labelled, self._lines.add(piece))

    def _await_daemon(self) -> None:
        """Wait until the daemon answers again. Raises BackendUnreachable after a quarter of an hour."""
        clock = self._daemon.clock
        give_up, wait = clock.monotonic() + _GIVE_UP_SECONDS, _FIRST_WAIT
        while True:
            clock.sleep(wait)
            try:
                self._running()
                return
            except NotFound:
                return
            except BackendUnreachable:
                if clock.monotonic() > give_up:
                    raise
                wait = min(wait * 2, _LONGEST_WAIT)

    def _running(self) -> bool:
        with self._daemon.translated():
            state = self._daemon.api.inspect_container(self._container)["State"]
        return bool(state.get("Running")) or state.get("Status") in ("created", "restarting", "paused")

    def _rotates(self) -> bool:
        """Whether the engine starts a new file now and then: a choice of its log driver."""
        with self._daemon.translated():
            log = self._daemon.api.inspect_container(self._container)["HostConfig"].get("LogConfig") or {}
        return log.get("Type") == "local" or "max-size" in (log.get("Config") or {})

    # -- tail ----------------------------------------------------------------------------------------------

    def _begin_at_tail(self, query: LogQuery) -> Iterator[LogLine]:
        """The last lines now; what follows joins on to them."""
        tail = query.tail or 0
        lines = self._last(tail, query, finish=False)
        yield from map(self._labelled, lines[-tail:] if tail else [])

    def _last(self, tail: int, query: LogQuery, finish: bool = True) -> list[Line]:
        """At least the last `tail` lines. The engine counts pieces, not lines: ask until enough lines are whole."""
        ask = tail + _SLACK
        while True:
            self._seen, self._lines = Seen(rotating=not finish and self._rotates()), Assembler()
            lines, pieces = deque[Line](maxlen=tail + 1), 0
            for piece in self._pieces({"since": _stamp(query), "tail": ask}):
                pieces += 1
                self._seen.begin(piece)
                lines.extend(self._lines.add(piece))
            if finish:
                lines.extend(self._lines.rest())
            if pieces < ask or len(lines) > tail:
                return list(lines)
            ask *= 4

    # -- bytes ---------------------------------------------------------------------------------------------

    def _pieces(self, wanted: Mapping[str, Any]) -> Iterator[Piece]:
        params = {"stdout": 1, "stderr": 1, "timestamps": 1, "follow": 0, **wanted}
        with self._daemon.translated():
            config = self._daemon.api.inspect_container(self._container)["Config"]
            yield from (terminal if config.get("Tty") else frames)(self._chunks(params))

    def _chunks(self, params: Mapping[str, Any]) -> Iterator[bytes]:
        import requests.exceptions
        import urllib3.exceptions

        with self._daemon.stream(f"/containers/{self._container}/logs", params, _STALL_SECONDS) as response:
            try:
                yield from response.iter_content(None)
            except requests.exceptions.ConnectionError as error:
                if params["follow"] and error.args and isinstance(error.args[0], urllib3.exceptions.ReadTimeoutError):
                    raise Stalled from None
                raise

    def _labelled(self, line: Line) -> LogLine:
        return LogLine(line.text, to_datetime(line.at) if line.at else None, 0, self._replica)

    def _said(self, text: str, kind: Literal["gap", "note"]) -> LogLine:
        return LogLine(text, self._daemon.clock.now(), 0, self._replica, kind)


def _stamp(query: LogQuery) -> str:
    """`since` as the logs API wants it: seconds with nine decimals; 0 is the beginning."""
    at = from_datetime(query.since) if query.since else 0
    return f"{at // NANOSECONDS}.{at % NANOSECONDS:09d}" if at else "0"
