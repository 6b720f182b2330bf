#!/usr/bin/env python3
"""Analysis of large saved logs: CPU seconds and peak memory by size and kind of log.

Kinds: `progress` (bars and losses), `diverse` (no two lines alike), `errors` (every line fits a rule).
Run: python benchmarks/analyze.py [--mb 100]
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

LAST = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"


def write(path: Path, kind: str, megabytes: int) -> None:
    """A log of this kind whose last line is the cause."""
    chance, size, number = random.Random(1), 0, 0
    with path.open("wb") as file:
        while size < megabytes * 1_000_000:
            block = b"".join(_line(kind, number + n, chance) for n in range(10_000))
            size, number = size + len(block), number + 10_000
            file.write(block)
        file.write(LAST)


def _line(kind: str, n: int, chance: random.Random) -> bytes:
    if kind == "progress":
        return b"[rank%d] Epoch %d: %d%%|%s| %d/1000 [00:12<00:12, loss=%f]\n" % (
            n % 8, n // 1000, n % 100, b"#" * (n % 10), n % 1000, chance.random(),
        )  # fmt: skip
    if kind == "diverse":
        return b"INFO read %x from %x.jpg by user %x\n" % (
            chance.getrandbits(64), chance.getrandbits(64), chance.getrandbits(64),
        )  # fmt: skip
    return b"[rank%d] step %d loss: nan, ConnectTimeout to 10.0.0.%d\n" % (n % 64, n, n % 250)


def main() -> int:
    """Measure each kind in a process of its own and print a row."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--mb", type=int, default=100)
    options.add_argument("--one", help="analyse this file and print the peak memory in MB")
    given = options.parse_args()
    if given.one:
        return one(given.one)
    print(f"{'kind':<10}{'MB':>6}{'CPU s':>9}{'MB/s':>8}{'peak MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("progress", "diverse", "errors"):
            path = Path(folder) / kind
            write(path, kind, given.mb)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            code = (
                f"import sys; sys.path.insert(0, {str(ROOT)!r}); from benchmarks.analyze import one; one({str(path)!r})"
            )
            ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{kind:<10}{given.mb:>6}{seconds:>9.2f}{given.mb / seconds:>8.0f}{float(ended.stdout):>9.0f}")
            path.unlink()
    return 0


def one(path: str) -> int:
    """Analyse one log and print the peak memory of this process in MB."""
    from tao_run.analysis import analyze_log

    with Path(path).open("rb") as stream:
        found = analyze_log(stream)
    assert found is not None and found.rule == "cuda-oom"
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return 0


if __name__ == "__main__":
    sys.exit(main())
