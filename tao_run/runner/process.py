"""Runs the command in a process group of its own, passes signals on, and reaps as process 1 of a container must."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Mapping, Optional, Sequence

from . import log
from .errors import RunnerError
from .stop import ENDING, Stop

DEFAULT_GRACE = 10.0
_TICK = 0.05
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def adopt_orphans() -> None:
    """Become the parent of what the command leaves behind, so that its ends are seen and nothing stays a zombie."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Command:
    """One command as a process group. `grace` is in seconds, between the passed-on signal and SIGKILL."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], stop: Stop, grace: float) -> None:
        self._words, self._env, self._stop, self._grace = words, env, stop, grace
        self._pid = 0
        self._signalled: Optional[float] = None

    def run(self) -> int:
        """Run to the end. Returns the command's own exit code, or 128 + n if signal n ended it.

        Raises RunnerError if it cannot be started.
        """
        self._stop.check()
        try:
            # Popen's own bookkeeping is not used: as the reaper of all, this process waits for any child.
            process = subprocess.Popen(list(self._words), env=dict(self._env), start_new_session=True)
        except OSError as error:
            raise RunnerError(f"cannot start {self._words[0]}: {error.strerror}") from None
        self._pid = process.pid
        self._stop.forward = self._pass_on
        if self._stop.number is not None:
            self._pass_on(self._stop.number)
        process.returncode = status = self._wait()
        self._end_group()
        self._stop.forward = None
        return status

    def _pass_on(self, number: int) -> None:
        """From a signal handler: send it on to the whole group."""
        if number in ENDING and self._signalled is None:
            self._signalled = time.monotonic()
        self._send(number)

    def _send(self, number: int) -> bool:
        try:
            os.killpg(self._pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _wait(self) -> int:
        while True:
            status = self._reap()
            if status is not None:
                return status
            self._kill_when_due()
            time.sleep(_TICK)

    def _reap(self) -> Optional[int]:
        """Collect every child that has ended; the command's exit code if it was among them."""
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return found
            if pid == 0:
                return found
            if pid == self._pid:
                found = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _kill_when_due(self) -> None:
        if self._signalled is not None and time.monotonic() - self._signalled > self._grace:
            log.warn(f"the command did not end within {self._grace:g} s, it is killed")
            self._signalled = float("inf")
            self._send(signal.SIGKILL)

    def _end_group(self) -> None:
        """What the command left running in its group has the grace to end, so that outputs are at rest."""
        if self._signalled is None and self._send(signal.SIGTERM):
            self._signalled = time.monotonic()
        while self._send(0):
            self._kill_when_due()
            self._reap()
            time.sleep(_TICK)


def grace_from(env: Mapping[str, str]) -> float:
    """TAO_RUN_GRACE in seconds, else the default."""
    try:
        return max(0.0, float(env.get("TAO_RUN_GRACE", DEFAULT_GRACE)))
    except ValueError:
        log.warn(f"TAO_RUN_GRACE={env['TAO_RUN_GRACE']!r} is no number of seconds, {DEFAULT_GRACE:g} is used")
        return DEFAULT_GRACE
