#!/usr/bin/env python3
"""The chaos run of the tests, for longer: many seeds, ten minutes of backends' time each, until real time is up.

Backends fail at random, submissions lose their answers, watchers die and come back. Prints each state that was
not true and each wrong exit code. Run: python benchmarks/chaos.py [--minutes 10]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.jobs.chaos import Chaos


def main() -> int:
    """Run until the time is up; the exit code is 1 if anything was wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0, help="real minutes")
    options.add_argument("--seed", type=int, default=1000)
    given = options.parse_args()
    end = time.monotonic() + given.minutes * 60
    wrong: list[str] = []
    runs = sweeps = polls = 0
    while time.monotonic() < end:
        seed = given.seed + runs
        with tempfile.TemporaryDirectory() as state:
            run = Chaos(Path(state), seed, failing=0.1 + 0.1 * (seed % 8), program_errors=seed % 2 == 0)
            code, true = run.run(), run.true_code()
        wrong += [f"seed {seed}: {text}" for text in run.wrong]
        wrong += [f"seed {seed}: exit code {code}, should be {true}"] if code != true else []
        runs, sweeps = runs + 1, sweeps + run.sweeps
        polls += sum(backend.calls.get("poll", 0) for backend in run.bench.backends.values())
    print(f"{runs} runs, {sweeps} sweeps, {polls} polls, {len(wrong)} wrong")
    for line in wrong[:50]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
