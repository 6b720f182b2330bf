"""Lepton against the fake server: `tao-run status` beside `lep job get`, a watch of 1,000 jobs, a long log.

    python benchmarks/lepton.py [--runs 10] [--jobs 1000] [--lines 12000]

Prints medians, their ratio, and request counts. Both programs are started as a user starts them, in turn, on the
same job of the same server.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tao_run.clock import SystemClock  # noqa: E402
from tao_run.credentials import Credentials  # noqa: E402
from tao_run.jobs.model import Job, JobState, JobStatus, LogQuery  # noqa: E402
from tao_run.jobs.request import parse_request  # noqa: E402
from tao_run.jobs.store import Store  # noqa: E402
from tao_run.platforms.lepton import LeptonSDK  # noqa: E402
from tao_run.platforms.lifecycle import build_job  # noqa: E402
from tests.fakes.lepton import FakeLepton  # noqa: E402


def timed(act: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def settings(lepton: FakeLepton, state: str) -> dict[str, str]:
    """The environment of both programs: no version check, no proxy, no login of the person who measures."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEPTON_", "TAO_RUN_"))}
    ours = {
        "LEPTON_WORKSPACE_ID": lepton.workspace_id,
        "LEPTON_AUTH_TOKEN": lepton.token,
        "LEPTON_WORKSPACE_TOKEN": lepton.token,
        "LEPTON_WORKSPACE_URL": lepton.url,
        "LEPTON_CACHE_DIR": state,
        "TAO_RUN_STATE_DIR": state,
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
    }
    return {**kept, **ours}


def our_job(platform: LeptonSDK, lepton: FakeLepton) -> Job:
    """A running job of ours on the fake."""
    request = parse_request({"platform": "lepton", "image": "img", "command": "true"}, "benchmark")
    fake = lepton.workspace.add_job("bench", state="Running", ready=1, active=1)
    job = build_job(platform, request)
    fake.metadata["labels"] = {"tao-run": job.id}
    return replace(job, backend_id=fake.id, status=JobStatus(JobState.RUNNING))


def status_beside_lep(lepton: FakeLepton, platform: LeptonSDK, store: Store, runs: int) -> None:
    """Medians of both programs, run in turn."""
    job = our_job(platform, lepton)
    store.add(job, "benchmark:0:0")
    store.launched(job.id, str(job.backend_id))
    environ = settings(lepton, str(store.directory))
    scripts = Path(sys.executable).parent
    commands = {
        "lep job get": [str(scripts / "lep"), "job", "get", "--id", str(job.backend_id)],
        "tao-run status": [sys.executable, "-m", "tao_run", "status", job.id],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs + 1):
        for name, command in commands.items():
            run = lambda command=command: subprocess.run(command, env=environ, capture_output=True, check=True)  # noqa: E731
            seconds[name].append(timed(run))
    medians = {name: statistics.median(values[1:]) for name, values in seconds.items()}  # the first one warms up
    for name, median in medians.items():
        print(f"{name:16} {median:.3f} s (median of {runs})")
    print(f"ratio            {medians['tao-run status'] / medians['lep job get']:.2f}")


def watch_many(lepton: FakeLepton, platform: LeptonSDK, count: int) -> None:
    """One look at many jobs."""
    model = our_job(platform, lepton)
    jobs = []
    for number in range(count):
        fake = lepton.workspace.add_job(f"job-{number}", state="Running", ready=1, active=1)
        fake.metadata["labels"] = {"tao-run": f"{number:016x}"}
        jobs.append(replace(model, id=f"{number:016x}", backend_id=fake.id))
    before = len(lepton.requests)
    seconds = timed(lambda: platform.poll(jobs))
    print(f"poll of {count} jobs: {len(lepton.requests) - before} requests, {seconds:.2f} s")


def read_log(lepton: FakeLepton, platform: LeptonSDK, count: int) -> None:
    """A log over three replicas, whole and its end."""
    job = our_job(platform, lepton)
    fake = lepton.workspace.jobs[str(job.backend_id)]
    replicas = [fake.add_replica(rank) for rank in range(3)]
    begin = int((platform.clock.now() - timedelta(minutes=5)).timestamp()) * 1_000_000_000
    fake.status["creation_time"] = begin // 1_000_000
    for number in range(count):
        replicas[number % 3].log(f"line {number}", at_ns=begin + number * 1000)
    for name, query in (("whole", LogQuery()), ("tail 100", LogQuery(tail=100))):
        before, found = len(lepton.requests), 0

        def read(query: LogQuery = query) -> None:
            nonlocal found
            found = sum(1 for _ in platform.logs(job, query))

        seconds = timed(read)
        print(f"log of {count} lines, {name}: {found} lines, {len(lepton.requests) - before} requests, {seconds:.2f} s")


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=12_000)
    arguments = parser.parse_args()
    with FakeLepton(run_jobs=False) as lepton, tempfile.TemporaryDirectory() as state:
        store = Store(Path(state))
        credentials = Credentials(settings(lepton, state))
        platform = LeptonSDK(credentials=credentials, store=store, clock=SystemClock())
        status_beside_lep(lepton, platform, store, arguments.runs)
        watch_many(lepton, platform, arguments.jobs)
        read_log(lepton, platform, arguments.lines)
        store.close()


if __name__ == "__main__":
    main()
