"""The process that runs a local job: starts its ranks, ends them, and writes down how they ended.

It is started detached by the adapter, reads its plan (with secret values) from standard input, and outlives
the command line. Standard library only, so that it starts fast and survives an upgrade of the package.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from tao_run.platforms.local.gpus import Bookings
from tao_run.platforms.local.jobdir import JobDir, process_start, write_durably
from tao_run.platforms.local.processes import descendants, group_of, signal_groups, signal_process

_TICK = 0.1
_PR_SET_CHILD_SUBREAPER = 36
_FINE_SAMPLES = 10_000
_RECORD_AGAIN = 10.0
_REST_GRACE = 5.0  # after one rank has failed the others may still log their own error


class Supervisor:
    """Runs one job to its end. `plan` is what the adapter prepared."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.dir = JobDir(Path(plan["directory"]))
        self.bookings = Bookings(self.dir.path.parent)
        self.children: list[subprocess.Popen[bytes]] = []
        self.sizes: dict[int, int] = {}
        self.samples = 0
        self.sampled = 0.0
        self.first_code: int | None = None  # of the rank that failed first: the others are its victims
        self.stop_reason = ""
        self.started = time.time()
        self.deadline = float("inf")  # of the monotonic clock: setting the wall clock ends no job

    def run(self) -> None:
        """Wait for GPUs, start the ranks, wait for them, record the end."""
        signal.signal(signal.SIGTERM, self._on_cancel)
        signal.signal(signal.SIGINT, self._on_cancel)
        try:
            gpus = self._wait_for_gpus()
            if not self.stop_reason:
                self._start(gpus)
                self._watch()
        except (OSError, ValueError) as error:  # ValueError: a NUL character where the system takes none
            self.stop_reason = f"failed: {error}"
        self._end_all()
        self._note_times()
        self._finish()

    def _on_cancel(self, number: int, frame: FrameType | None) -> None:
        self.stop_reason = self.stop_reason or "canceled"

    def _cancelled(self) -> bool:
        if self.dir.cancel.exists():
            self._on_cancel(signal.SIGTERM, None)
        return bool(self.stop_reason)

    def _wait_for_gpus(self) -> list[str]:
        count, pool = self.plan["gpu_count"], self.plan["gpu_pool"]
        if not count:
            return []
        self.dir.phase.write_text("waiting for GPUs")
        while not self._cancelled():
            taken = self.bookings.take(pool, count, self.dir.path)
            if taken is not None:
                return taken
            time.sleep(5 * _TICK)
        return []

    def _start(self, gpus: list[str]) -> None:
        self.dir.phase.write_text("running")
        self.started = time.time()
        self.deadline = time.monotonic() + (self.plan["max_time"] or float("inf"))
        for rank in range(self.plan["nodes"]):
            self.children.append(self._spawn(rank, gpus))
        write_durably(self.dir.ranks, [f"{child.pid} {process_start(child.pid)}" for child in self.children])

    def _spawn(self, rank: int, gpus: list[str]) -> subprocess.Popen[bytes]:
        environment = {**self.plan["env"], **self.plan["secrets"], **self.plan["rank_env"][rank]}
        per_rank = self.plan["gpus_per_node"]
        if self.plan["gpu_pool"] or per_rank == 0:
            mine = [gpus[(rank * per_rank + i) % len(gpus)] for i in range(per_rank)] if gpus else []
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
        with self.dir.log(rank).open("ab") as log:
            return subprocess.Popen(
                ["/bin/bash", "-c", self.plan["script"]],
                cwd=self.plan["cwd"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _watch(self) -> None:
        first_failure: float | None = None
        while any(child.poll() is None for child in self.children):
            self._note_times()
            if self._cancelled() or self._out_of_time():
                break
            if first_failure is None and self._note_failure():
                first_failure = time.monotonic()
            if first_failure is not None and time.monotonic() - first_failure > _REST_GRACE:
                break
            _reap_orphans({child.pid for child in self.children})
            time.sleep(_TICK)
        self._note_failure()

    def _note_failure(self) -> bool:
        """Remember the exit code of the rank that failed first; whether any rank has failed."""
        if self.first_code is None:
            self.first_code = next((_exit_code(child.poll()) for child in self.children if child.poll()), None)
        return self.first_code is not None

    def _out_of_time(self) -> bool:
        if time.monotonic() > self.deadline:
            self.stop_reason = self.stop_reason or "timeout"
        return self.stop_reason == "timeout"

    def _note_times(self) -> None:
        """Remember when each log grew: lines have no time of their own, and ranks are merged by time.

        A long job is sampled once a second, so that the samples stay few. No log or no space is no fault of the job.
        """
        due = self.sampled + (1.0 if self.samples > _FINE_SAMPLES else 0.0)
        if self.children and time.monotonic() >= due:
            self.sampled = time.monotonic()
            for rank in range(len(self.children)):
                with contextlib.suppress(OSError):
                    self._note_time(rank)

    def _note_time(self, rank: int) -> None:
        size = self.dir.log(rank).stat().st_size
        if size != self.sizes.get(rank, 0):
            with self.dir.index(rank).open("a") as index:
                index.write(f"{time.time():.3f} {size}\n")
            self.sizes[rank] = size
            self.samples += 1

    def _end_all(self) -> None:
        """SIGTERM to everything the ranks started, then, after the grace, SIGKILL to whatever is left."""
        groups = {child.pid for child in self.children}
        signal_groups(groups, signal.SIGTERM)
        for pid in descendants(os.getpid()):
            if group_of(pid) not in groups:
                signal_process(pid, signal.SIGTERM)
        deadline = time.monotonic() + self.plan["grace"]
        while time.monotonic() < deadline and (_running(self.children) or descendants(os.getpid())):
            _reap_orphans(groups)
            time.sleep(_TICK / 2)
        signal_groups(groups, signal.SIGKILL)
        for _ in range(50):  # a child may fork while its parent dies: repeat until nobody is left
            left = descendants(os.getpid())
            for pid in left:
                signal_process(pid, signal.SIGKILL)
            _reap_orphans(groups)
            if not left and not _running(self.children):
                break
            time.sleep(_TICK / 2)
        for child in self.children:
            child.wait()

    def _finish(self) -> None:
        codes = [_exit_code(child.returncode) for child in self.children]
        self._record(
            {
                "ranks": codes,
                "exit_code": self.first_code or next((code for code in codes if code), 0) if codes else None,
                "stopped": self.stop_reason,
                "started": self.started,
                "ended": time.time(),
            },
        )
        self.bookings.release(self.dir.path)

    def _record(self, ended: dict[str, Any]) -> None:
        """Write down the end. A full disk is waited out: without the record the outcome would be lost."""
        while self.dir.path.exists():
            try:
                write_durably(self.dir.exit, ended)
            except OSError:
                time.sleep(_RECORD_AGAIN)
            else:
                return


def _exit_code(returncode: int | None) -> int:
    """A shell's view of an exit: the command's own code, 128+n for signal n."""
    return 255 if returncode is None else returncode if returncode >= 0 else 128 - returncode


def _running(children: list[subprocess.Popen[bytes]]) -> bool:
    return any(child.poll() is None for child in children)


def _reap_orphans(ours: set[int]) -> None:
    """Collect adopted processes that ended. The ranks themselves are left to their Popen objects."""
    try:
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in ours:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
    except ChildProcessError:
        return


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _say_claimed() -> None:
    try:
        os.write(1, b"claimed\n")
    except BrokenPipeError:
        return  # the launching process died meanwhile: the job is ours and runs all the same


def main() -> int:
    """Read the plan, claim the job, say so on standard output, run it."""
    text = sys.stdin.buffer.read()
    try:
        plan = json.loads(text)
    except ValueError:
        return 1  # the launching process died while it was writing: the job was never launched
    supervisor = Supervisor(plan)
    if not supervisor.dir.take():
        return 1
    _say_claimed()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(quiet, stream)
    _adopt_orphans()
    supervisor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
