"""kill -9 of the command line at any moment of a submission: no job is lost, none runs twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cli.harness import CommandLine

# 200 moments take minutes: TAO_RUN_TEST_KILLS=200 runs the whole of it
KILLS = int(os.environ.get("TAO_RUN_TEST_KILLS", "40"))
LONGEST = 0.9  # seconds; a submission takes about half of it


def _submit_and_kill(tao: CommandLine, ran: Path, seed: int) -> None:
    child = tao.start(
        "submit", "--platform", "local", "--no-preflight", "--detach", "-c", f'echo "$TAO_JOB_ID" >> {ran}',
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(random.Random(seed).uniform(0.0, LONGEST))
    child.send_signal(signal.SIGKILL)
    child.wait()


def test_no_job_is_lost_or_doubled(tao: CommandLine, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    ran.touch()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda seed: _submit_and_kill(tao, ran, seed), range(KILLS)))
    deadline = time.monotonic() + 60
    jobs = tao("--format", "json", "status", "--all").json["jobs"]
    while any(job["state"] in ("Pending", "Running") for job in jobs) and time.monotonic() < deadline:
        time.sleep(1)
        jobs = tao("--format", "json", "status", "--all").json["jobs"]
    runs = Counter(ran.read_text().split())
    ended = {job["id"]: (job["state"], job["reason"]) for job in jobs}
    assert set(runs) <= set(ended), "a job ran that is not in the record"
    assert all(count == 1 for count in runs.values()), "a job ran twice"
    for job_id, (state, reason) in ended.items():
        assert (state, reason) == (("Complete", "") if job_id in runs else ("Error", "NeverLaunched"))
    print(f"{KILLS} kills: {len(ended)} recorded, {len(runs)} ran")
