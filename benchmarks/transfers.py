"""Transfers of the runner beside s5cmd and a sequential fsspec copy, in one run, on one real S3 server.

    python benchmarks/transfers.py [--files 10000] [--size 50000] [--big-mib 1024] [--rounds 2] [--work DIR]

The runner's figure is what its record says of the transfer: opening the store, listing, moving, checking,
indexing. `whole job` is from `bash -c` to its exit, with a command that does nothing.
fsspec copies a part of the many files, and the rest is extrapolated: it is linear, one file after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tao_run.entrypoint.bundle import inline_script
from tao_run.entrypoint.plans import make_plan
from tests.services.s3 import S3Service, s3_service

MIB = 1 << 20
FSSPEC = """
import sys, s3fs
direction, names, bucket, folder = sys.argv[1], sys.argv[2].split(","), sys.argv[3], sys.argv[4]
store = s3fs.S3FileSystem()
for name in names:
    if direction == "down":
        store.get_file(f"{bucket}/{name}", f"{folder}/{name.split('/')[-1]}")
    else:
        store.put_file(f"{folder}/{name.split('/')[-1]}", f"{bucket}/fsspec/{name}")
"""


@dataclass
class Row:
    """Seconds of each tool for one kind of transfer, and the runner's peak memory in MB."""

    name: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    memory: float = 0.0

    def add(self, tool: str, seconds: float) -> None:
        self.seconds.setdefault(tool, []).append(seconds)

    def median(self, tool: str) -> float:
        return statistics.median(self.seconds[tool])


class Bench:
    """One server, one set of files, three tools."""

    def __init__(self, options: argparse.Namespace, work: Path, server: S3Service) -> None:
        self.options, self.work, self.server = options, work, server
        self.source = work / "source"
        self.bucket = server.bucket("bench")
        self.env = {**os.environ, **server.container_env(), "no_proxy": "127.0.0.1", "TAO_RUN_PYTHON": sys.executable}
        self.fsspec_python = self._fsspec()

    def _fsspec(self) -> str:
        folder = self.work / "fsspec"
        venv.create(folder, with_pip=True)
        python = str(folder / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "s3fs"], check=True)
        return python

    def make_files(self) -> None:
        many = self.source / "many"
        many.mkdir(parents=True)
        block = os.urandom(self.options.size + self.options.files)
        for number in range(self.options.files):
            (many / f"{number:06}").write_bytes(block[number : number + self.options.size])
        with (self.source / "big").open("wb") as file:
            piece = os.urandom(MIB)
            for number in range(self.options.big_mib):
                file.write(number.to_bytes(8, "big") + piece[8:])
        self._run(["s5cmd", "--endpoint-url", self.server.endpoint, "cp", f"{self.source}/", f"s3://{self.bucket}/"])

    def _run(self, command: list[str], env: dict[str, str] | None = None) -> float:
        os.sync()  # nobody pays for writing back what another tool has written
        started = time.monotonic()
        done = subprocess.run(command, env={**self.env, **(env or {})}, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{command[0]} failed: {done.stderr[-2000:]}")
        return time.monotonic() - started

    def _fresh(self, name: str) -> Path:
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path

    # -- the tools ---------------------------------------------------------------------------------------

    def runner_down(self, what: str) -> float:
        root = self._fresh("runner")
        record = self._job(make_plan(command="true", inputs={"d": f"s3://{self.bucket}/{what}"}), root)
        self._check(root / "results" / "bench" / "inputs" / self.bucket / what, what)
        return float(record["timings"]["inputs_seconds"])

    def runner_up(self, what: str) -> float:
        target = f"s3://{self.bucket}/runner-up-{time.monotonic_ns()}/{what}"
        # the files come into being with the command: before it only the job's own record goes up
        place = self.work / "made"
        place.unlink(missing_ok=True)
        command = f"ln -s {self.source / what} {place}"
        record = self._job(make_plan(command=command, outputs={str(place): target}), self._fresh("runner"))
        return float(record["timings"]["outputs_seconds"])

    def _job(self, plan: dict[str, object], root: Path) -> dict[str, Any]:
        env = {"TAO_JOB_ID": "bench", "TAO_RESULTS_ROOT": str(root / "results")}
        self.whole_job = self._run(["/bin/bash", "-c", inline_script(plan)], env)
        record: dict[str, Any] = json.loads((root / "results" / "bench" / "tao-run.json").read_text())
        return record

    def s5cmd_down(self, what: str) -> float:
        root = self._fresh("s5cmd")
        name = f"s3://{self.bucket}/{what}" + ("/*" if what == "many" else "")
        return self._run(["s5cmd", "--endpoint-url", self.server.endpoint, "cp", name, f"{root}/"])

    def s5cmd_up(self, what: str) -> float:
        target = f"s3://{self.bucket}/s5cmd-up-{time.monotonic_ns()}/"
        return self._run(["s5cmd", "--endpoint-url", self.server.endpoint, "cp", str(self.source / what), target])

    def fsspec(self, direction: str, what: str) -> float:
        root = self._fresh("fsspec-copy")
        part = min(self.options.fsspec_files, self.options.files)
        names = [f"many/{number:06}" for number in range(part)] if what == "many" else ["big"]
        folder = root if direction == "down" else self.source / ("many" if what == "many" else "")
        script = [self.fsspec_python, "-c", FSSPEC, direction, ",".join(names), self.bucket, str(folder)]
        seconds = self._run(script)
        return seconds * self.options.files / part if what == "many" else seconds

    def _check(self, path: Path, what: str) -> None:
        """What came is what was there: a fast wrong copy is no copy."""
        if subprocess.run(["diff", "-rq", str(path), str(self.source / what)], capture_output=True).returncode != 0:
            raise SystemExit(f"the runner's copy of {what} differs")

    # -- the run -----------------------------------------------------------------------------------------

    def measure(self) -> list[Row]:
        kinds: list[tuple[str, str, str]] = [
            (f"{self.options.files:,} x {self.options.size // 1000} kB", "many", "down"),
            (f"{self.options.big_mib} MiB", "big", "down"),
            (f"{self.options.files:,} x {self.options.size // 1000} kB", "many", "up"),
            (f"{self.options.big_mib} MiB", "big", "up"),
        ]
        rows = []
        for title, what, direction in kinds:
            row = Row(f"{title} {direction}")
            runner: Callable[[str], float] = getattr(self, f"runner_{direction}")
            s5cmd: Callable[[str], float] = getattr(self, f"s5cmd_{direction}")
            turns = [("s5cmd", s5cmd), ("runner", runner)]
            for _ in range(self.options.rounds):
                for tool, run in turns:
                    row.add(tool, run(what))
                row.add("whole job", self.whole_job)
                turns.reverse()  # who comes second finds the disk busier
            row.add("fsspec", self.fsspec(direction, what))
            rows.append(row)
            print(row.name, {tool: [round(s, 2) for s in seconds] for tool, seconds in row.seconds.items()}, flush=True)
        return rows


def peak_memory(action: Callable[[str], float], what: str) -> float:
    """The largest resident set of one runner job, in MB, measured in a process whose only children it is."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        action(what)
        os.write(writer, str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss).encode())
        os._exit(0)
    os.close(writer)
    kilobytes = int(os.read(reader, 64))
    os.close(reader)
    os.wait()
    return kilobytes / 1000


def table(rows: list[Row]) -> str:
    """The figures as Markdown."""
    heads = ["", "runner", "s5cmd", "fsspec, sequential", "runner is", "whole job", "peak memory"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        runner, s5cmd, fsspec = (row.median(tool) for tool in ("runner", "s5cmd", "fsspec"))
        faster = f"{s5cmd / runner:.2f}x s5cmd, {fsspec / runner:.1f}x fsspec"
        lines.append(
            f"| {row.name} | {runner:.2f} s | {s5cmd:.2f} s | {fsspec:.1f} s | {faster} "
            f"| {row.median('whole job'):.2f} s | {row.memory:.0f} MB |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run it all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=50_000, help="bytes of each of the many files")
    parser.add_argument("--big-mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--fsspec-files", type=int, default=500, help="how many fsspec really copies")
    parser.add_argument("--work", type=Path, help="directory of the client's files; /dev/shm takes its disk out of it")
    options = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (
        tempfile.TemporaryDirectory(prefix="tao-run-bench-") as served,
        tempfile.TemporaryDirectory(prefix="tao-run-bench-", dir=options.work) as work,
        s3_service(Path(served)) as server,
    ):
        bench = Bench(options, Path(work), server)
        bench.make_files()
        rows = bench.measure()
        actions = [(run, what) for run in (bench.runner_down, bench.runner_up) for what in ("many", "big")]
        for row, (action, what) in zip(rows, actions, strict=True):
            row.memory = peak_memory(action, what)
    print(table(rows))


if __name__ == "__main__":
    main()
