"""The runner's own lines in the job's log: on stderr, marked, one write each so that ranks do not mix."""

from __future__ import annotations

import os
import sys
import time
from typing import Optional

from .errors import RunnerError

PREFIX = "tao-run: "
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def say(text: str) -> None:
    """One line of the log (more, if the text has more)."""
    lines = "".join(f"{PREFIX}{line}\n" for line in text.splitlines())
    try:
        sys.stderr.flush()
        os.write(2, lines.encode("utf-8", "backslashreplace"))
    except OSError:
        pass  # nobody reads the log any more; the job goes on


def warn(text: str) -> None:
    """A line that somebody should see."""
    say(f"warning: {text}")


def error(fault: RunnerError) -> None:
    """What went wrong and what to do."""
    say(f"error: {fault.message}" + (f"\n  fix: {fault.hint}" if fault.hint else ""))


def size_text(count: float) -> str:
    """Bytes for people: `12.3 MB` (powers of 1000)."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def time_text(seconds: float) -> str:
    """Seconds for people: `1h 02m`, `3m 20s`, `7s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 60}m {whole % 60:02d}s" if whole >= 60 else f"{whole}s"


def plural(count: int, noun: str) -> str:
    """`1 file`, `10,000 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class Progress:
    """Counts files and bytes of one transfer, and says every `interval` seconds how it goes.

    `add` is called from many threads; counting under the interpreter's lock is exact enough for a display.
    """

    def __init__(self, title: str, files: int, size: int, interval: float = 10.0) -> None:
        self.title, self.files, self.size, self.interval = title, files, size, interval
        self.done_files = self.done_bytes = 0
        self.started = self.last = time.monotonic()

    def add(self, files: int, size: int) -> None:
        """So many more files and bytes are through."""
        self.done_files += files
        self.done_bytes += size

    def tick(self) -> None:
        """Say a line if it is time for one."""
        now = time.monotonic()
        if self.title and now - self.last >= self.interval:
            self.last = now
            say(self.line(now))

    def line(self, now: Optional[float] = None) -> str:
        """How far it is: files, bytes, rate, and the time that is left at that rate."""
        elapsed = max((now or time.monotonic()) - self.started, 1e-3)
        rate = self.done_bytes / elapsed
        left = f", {time_text((self.size - self.done_bytes) / rate)} left" if rate else ""
        return (
            f"{self.title}: {self.done_files:,} of {plural(self.files, 'file')}, "
            f"{size_text(self.done_bytes)} of {size_text(self.size)}, {size_text(rate)}/s{left}"
        )

    def end(self) -> None:
        """Say the last line."""
        if self.title:
            say(self.summary())

    def summary(self) -> str:
        """The last line: what went through, and how fast."""
        elapsed = time.monotonic() - self.started
        rate = size_text(self.done_bytes / max(elapsed, 1e-3))
        moved = f"{plural(self.done_files, 'file')}, {size_text(self.done_bytes)}"
        return f"{self.title}: {moved} in {time_text(elapsed)} ({rate}/s)"
