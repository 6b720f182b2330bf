"""The log of a container on an instance as a stream that survives disconnects, because lines are counted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timezone

from tao_run.clock import Clock
from tao_run.errors import BackendUnreachable
from tao_run.jobs.model import JobStatus, LogLine, LogQuery
from tao_run.platforms.brev import scripts
from tao_run.platforms.brev.client import BrevCli
from tao_run.platforms.stamps import join_pieces, parse_stamp, to_datetime
from tao_run.platforms.streams import LONGEST_LINE

WAITS = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between looks at a job that has not started, and before a reconnect
TRIES = 8  # reconnects without a single new line before giving up
_MARK = b"\x1e"


class LogStream:
    """Reads one container's log. `status` observes the job; it may raise BackendUnreachable."""

    def __init__(self, cli: BrevCli, clock: Clock, instance: str, name: str, status: Callable[[], JobStatus]) -> None:
        self._cli = cli
        self._clock = clock
        self._instance = instance
        self._name = name
        self._status = status
        self._next: int | None = None  # number of the next line that the reader has not had
        self._outcome = ""
        self._told = False

    def read(self, query: LogQuery) -> Iterator[LogLine]:
        """The lines of a query; with `follow` until the job has ended and its last lines are out.

        Raises BackendUnreachable after TRIES reconnects in vain.
        """
        ended = not query.follow
        vain = 0
        while True:
            before = self._next
            yield from self._connect(replace(query, follow=not ended))
            vain = vain + 1 if self._next == before else 0
            if self._outcome == "cut" and vain >= TRIES:
                raise BackendUnreachable(f"the log of {self._name} broke off and instance {self._instance} is silent")
            if ended and self._outcome != "cut":
                break
            status = self._observe() if self._outcome != "cut" else None
            ended = ended or (status is not None and status.state.terminal)
            if not ended:
                yield from self._waiting(status)
            if not ended or self._outcome == "cut":
                self._clock.sleep(WAITS[min(vain, len(WAITS) - 1)])
        if self._outcome == "none":
            yield from self._start_log()

    def _waiting(self, status: JobStatus | None) -> Iterator[LogLine]:
        """Says once why there is no log yet."""
        if self._outcome == "none" and status is not None and not self._told:
            self._told = True
            yield LogLine(f"waiting: {status.reason} {status.message}".rstrip(), kind="note")

    def _observe(self) -> JobStatus | None:
        try:
            return self._status()
        except BackendUnreachable:
            return None

    def _start_log(self) -> Iterator[LogLine]:
        """Without a container, what the start script said is all there is."""
        for line in self._cli.exec(self._instance, scripts.start_log(self._name)).text.splitlines():
            if line.strip():
                yield LogLine(line, rank=0, replica=self._name, kind="note")

    def _connect(self, query: LogQuery) -> Iterator[LogLine]:
        since = query.since.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if query.since else ""
        script = scripts.logs(self._name, since, query.tail, self._next, query.follow)
        process = self._cli.stream(self._instance, script)
        self._outcome = "cut"
        try:
            yield from self._lines(process)
        finally:
            _end(process)

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[LogLine]:
        assert process.stdout is not None
        number = 0
        while line := process.stdout.readline(LONGEST_LINE):
            if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                return  # cut in the middle: it comes again, whole
            line = line.rstrip(b"\r\n")
            if line.startswith(_MARK):
                word, _, rest = line[1:].partition(b" ")
                if word != b"start":
                    self._outcome = word.decode()
                    return
                number = int(rest)  # again, if the CLI ran the script a second time
                self._next = number if self._next is None else self._next
            elif line:
                if self._next is not None and number >= self._next:
                    self._next = number + 1
                    yield self._parse(line)
                number += 1

    def _parse(self, line: bytes) -> LogLine:
        stamp = parse_stamp(line)
        time, text = (to_datetime(stamp[0]), join_pieces(line[stamp[1] :])) if stamp else (None, line)
        return LogLine(text.decode("utf-8", "replace"), time, rank=0, replica=self._name)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the CLI and the ssh below it; it runs in a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
