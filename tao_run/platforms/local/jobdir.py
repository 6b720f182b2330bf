"""The directory of a local job: who runs it, its logs, and the durable record of how it ended."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class JobDir:
    """Files of one job. The supervisor writes them; everybody else reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.claim = path / "claim"
        self.ranks = path / "ranks.json"
        self.exit = path / "exit.json"
        self.phase = path / "phase"
        self.cancel = path / "cancel"
        self.payload = path / "runner.pyz"

    def log(self, rank: int) -> Path:
        """The log of one rank: stdout and stderr together, as written."""
        return self.path / f"rank-{rank}.log"

    def index(self, rank: int) -> Path:
        """When which part of the log was seen: lines of `seconds offset`."""
        return self.path / f"rank-{rank}.times"

    def make(self) -> None:
        """Create the directory, readable by its owner only."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def take(self) -> bool:
        """Claim the job for this process. False if another has it: a job never runs twice."""
        try:
            (self.path / "taken").mkdir(mode=0o700)
        except FileExistsError:
            return False
        # in place whole or not at all: who reads half a claim takes the job for lost
        _write(self.claim, f"{os.getpid()} {process_start(os.getpid())}")
        return True

    def claimed(self) -> bool:
        """Whether a supervisor has taken the job."""
        return self.claim.exists()

    def supervisor(self) -> int | None:
        """The pid of the supervisor while it lives."""
        return _living(read_text(self.claim))

    def living_ranks(self) -> list[int]:
        """Pids of the ranks that still run."""
        ranks = read_json(self.ranks) or []
        return [pid for pid in (_living(text) for text in ranks) if pid is not None]

    def kept(self) -> bool:
        """Whether the directory is still there; `cancel --delete` removes it."""
        return self.path.is_dir()

    def alive(self) -> bool:
        """Whether anything of the job still runs."""
        return self.supervisor() is not None or bool(self.living_ranks())


def write_durably(path: Path, data: Any) -> None:
    """Write JSON so that after a crash the file is whole or not there."""
    _write(path, json.dumps(data))


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_json(path: Path) -> Any:
    """The content of a JSON file, or None if it is not there or not JSON."""
    try:
        return json.loads(read_text(path) or "null")
    except ValueError:
        return None  # files of ours are replaced whole: this one was damaged from outside


def read_text(path: Path) -> str:
    """The content of a file, empty if it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def process_start(pid: int) -> str:
    """When a process started, in clock ticks since boot, with the boot's id; empty if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "" if Path("/proc/self/stat").exists() or not _signalable(pid) else "unknown"
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else f"{fields[19]}@{_boot_id()}"


def _boot_id() -> str:
    return read_text(Path("/proc/sys/kernel/random/boot_id")).strip()


def _signalable(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _living(text: str) -> int | None:
    pid, _, start = text.partition(" ")
    return int(pid) if start and pid.isdecimal() and process_start(int(pid)) == start else None
