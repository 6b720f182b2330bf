"""How long tao-run takes to start, beside a bare two-command Typer app: whole processes, one after the other in turn.

Run: python benchmarks/startup.py [--runs 21]. Prints the median of each and the median of the ratios pair by pair.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = '''
import typer
app = typer.Typer()
@app.command()
def one(job: str = "x"):
    """One."""
    print(job)
@app.command()
def two(job: str = "x"):
    """Two."""
app()
'''
TAO = [sys.executable, "-m", "tao_run"]


def timed(command: list[str], environ: dict[str, str]) -> float:
    """Seconds of processor time of one run (user and system), which other work on the machine disturbs least."""
    before = os.times()
    subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def compare(name: str, ours: list[str], bare: list[str], environ: dict[str, str], runs: int) -> None:
    """Print one line: medians and the ratio."""
    for command in (ours, bare):
        timed(command, environ)
    pairs = [(timed(ours, environ), timed(bare, environ)) for _ in range(runs)]
    ratio = statistics.median(a / b for a, b in pairs)
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"{name:<28} {mine * 1000:6.0f} ms   bare Typer app {theirs * 1000:6.0f} ms   ratio {ratio:.2f}")


def main() -> None:
    """All comparisons."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=21)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE)
        environ = {**os.environ, "TAO_RUN_STATE_DIR": f"{folder}/state", "TAO_RUN_LOCAL_GPUS": ""}
        submit = [*TAO, "submit", "--platform", "local", "--no-preflight", "--detach", "--", "true"]
        for _ in range(3):
            subprocess.run(submit, env=environ, stdout=subprocess.DEVNULL, check=True)
        time.sleep(1)
        run_bare = [sys.executable, str(bare)]
        compare("tao-run --help", [*TAO, "--help"], [*run_bare, "--help"], environ, runs)
        compare("tao-run status", [*TAO, "status"], [*run_bare, "one"], environ, runs)
        compare("tao-run status JOB", [*TAO, "status", "@last"], [*run_bare, "one"], environ, runs)


if __name__ == "__main__":
    main()
