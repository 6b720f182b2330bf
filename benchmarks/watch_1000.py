#!/usr/bin/env python3
"""Watching 1,000 jobs of five platforms: CPU seconds and requests per tick, with a table, lines and JSON.

Four platforms are scripted backends that answer at once; the fifth is this machine, with real processes
(`--local N`, 20 by default). Prints one row for each face of watch. Run: python benchmarks/watch_1000.py
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tao_run.cli.notify import Notifier
from tao_run.cli.output import Output
from tao_run.cli.output.watch import face_for
from tao_run.cli.runtime import Runtime
from tao_run.cli.watching import Causes, Show
from tao_run.jobs.model import Job
from tao_run.jobs.request import parse_request
from tao_run.jobs.watch import Watcher
from tao_run.platforms.lifecycle import build_job, submit
from tests.fakes.clock import StillClock
from tests.fakes.scripted import Backend, Life, ScriptedPlatform

ACCOUNTS = ("lepton-ws", "slurm-a", "kubernetes-x", "brev")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=1000)
    options.add_argument("--local", type=int, default=20)
    options.add_argument("--ticks", type=int, default=20)
    given = options.parse_args()
    print(f"{'face':<8}{'jobs':>6}{'CPU s/tick':>12}{'worst':>8}{'requests/tick':>15}")
    for face in ("table", "lines", "json"):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state:
            measured = measure(Path(state), face, given.jobs, given.local, given.ticks)
            print("{:<8}{:>6}{:>12.3f}{:>8.3f}{:>15.1f}".format(face, given.jobs, *measured))
    return 0


def measure(state: Path, face: str, count: int, local: int, ticks: int) -> tuple[float, float, float]:
    """Mean and worst CPU seconds of a tick, and requests per tick, with jobs that change all the time."""
    out = Terminal() if face == "table" else io.StringIO()
    clock = StillClock()
    runtime = Runtime(Output(out, io.StringIO(), {}, as_json=face == "json", width=160), _environ(state), clock)
    backends = {name: Backend(clock.now) for name in ACCOUNTS}
    platform = ScriptedPlatform.over(backends, store=runtime.store, clock=clock)
    runtime._platforms["scripted"] = platform
    jobs = _scripted_jobs(runtime, platform, backends, count - local) + _local_jobs(runtime, local)
    before = sum(backend.calls.get("poll", 0) for backend in backends.values())
    spent, last = [], time.process_time()
    watcher = Watcher(jobs, _platform_of(runtime, platform), runtime.store, clock, 300.0, spawn=lambda task: task())
    with face_for(runtime.output, clock, 300.0) as shown:
        show = Show(runtime, shown, Causes(runtime), Notifier(None, lambda text: None))
        for number, sweep in enumerate(watcher.sweeps()):
            show.sweep(sweep, watcher.next_look)
            now = time.process_time()
            spent.append(now - last)
            last = now
            if number >= ticks:
                break
    asked = sum(backend.calls.get("poll", 0) for backend in backends.values()) - before
    _stop(runtime, [job for job in jobs if job.platform == "local"])
    return sum(spent[1:]) / len(spent[1:]), max(spent[1:]), asked / ticks


def _environ(state: Path) -> dict[str, str]:
    return {"TAO_RUN_STATE_DIR": str(state), "TAO_RUN_LOCAL_GPUS": "", "PATH": "/usr/bin:/bin", "HOME": str(state)}


def _platform_of(runtime: Runtime, platform: ScriptedPlatform):  # type: ignore[no-untyped-def]
    return lambda job: platform if job.platform == "scripted" else runtime.platform_of(job)


def _scripted_jobs(runtime: Runtime, platform: ScriptedPlatform, backends: dict[str, Backend], count: int) -> list[Job]:
    made = []
    for number in range(count):
        account = ACCOUNTS[number % len(ACCOUNTS)]
        backends[account].life = lambda job, n=number: Life(starts=n * 0.3, ends=4000 + n)
        request = parse_request(
            {"platform": "scripted", "command": "train", "options": {"scripted": {"account": account}}}
        )
        made.append(submit(platform, runtime.store, build_job(platform, request)))
    return made


def _local_jobs(runtime: Runtime, count: int) -> list[Job]:
    platform = runtime.platform("local")
    request = parse_request({"platform": "local", "command": ["sleep", "300"], "options": {"local": {"grace": 1}}})
    return [submit(platform, runtime.store, build_job(platform, request)) for _ in range(count)]


def _stop(runtime: Runtime, jobs: list[Job]) -> None:
    from tao_run.platforms.lifecycle import cancel

    for job in jobs:
        cancel(runtime.platform_of(job), runtime.store, runtime.store.get(job.id))


if __name__ == "__main__":
    sys.exit(main())
