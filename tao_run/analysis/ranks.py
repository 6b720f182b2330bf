"""Which process failed first and which only fell with it, read from labels, launchers and exit codes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# How lines say which process wrote them: torch, torchrun --tee, Lightning, c10d, srun --label.
_RANK = re.compile(
    r"^\s*\[rank\s*:?\s*(\d+)\]"
    r"|^\s*\[default(\d+)\]:"
    r"|\[[Rr]ank:?\s?(\d+)\]"
    r"|^(\d{1,5}): "
    r"|\b[Rr]ank(?: |=|: )(\d+)\b(?!/)"
)
_SRUN = re.compile(
    r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)[\d,-]*: "
    r"(?:Exited with exit code (?P<code>\d+)|(?P<how>Killed|Terminated|Out Of Memory|Segmentation fault))"
)
_SPAWN = re.compile(r"^-- Process (?P<rank>\d+) terminated with the following error")
_ELASTIC = {
    "time": re.compile(r"^\W*(?:\[[^\]]*\]:?)?\s+time\s+: (\S+)"),
    "host": re.compile(r"^\W*(?:\[[^\]]*\]:?)?\s+host\s+: (\S+)"),
    "rank": re.compile(r"^\W*(?:\[[^\]]*\]:?)?\s+rank\s+: (\d+) \(local_rank: \d+\)"),
    "exitcode": re.compile(r"^\W*(?:\[[^\]]*\]:?)?\s+exitcode\s+: (-?\d+)"),
}
#: literals of the lines that this module wants to see
LITERALS = (
    "  host      : ",
    "  time      : ",
    "(local_rank: ",
    "  exitcode  : ",
    "srun: error: ",
    "-- Process ",
    "Root Cause (first observed failure)",
)
#: exit codes of processes that somebody else stopped
VICTIM_CODES = frozenset({137, 143, -9, -15})


@dataclass(frozen=True)
class ProcessEnd:
    """How one process ended, as a launcher tells it."""

    rank: int | None
    exit_code: int | None = None
    host: str = ""
    time: str = ""
    root_cause: bool = False

    @property
    def own_failure(self) -> bool:
        """Whether it failed by itself, as far as the exit code can tell."""
        return self.exit_code not in VICTIM_CODES and self.exit_code != 0


def rank_of(line: str) -> int | None:
    """The process rank that a line names, if it does."""
    found = _RANK.search(line)
    return None if found is None else int(next(group for group in found.groups() if group is not None))


@dataclass
class RankStory:
    """Collects how processes ended while a log goes by."""

    ends: dict[tuple[str, int | None], ProcessEnd] = field(default_factory=dict)
    _open: dict[str, str] = field(default_factory=dict)
    _root: bool = False

    def see(self, line: str) -> None:
        """Take note of a line that a launcher wrote about its processes."""
        if "Root Cause (first observed failure)" in line:
            self._root = True
        elif "srun: error: " in line:
            self._srun(line)
        elif line.startswith("-- Process "):
            self._spawn(line)
        else:
            self._elastic(line)

    def _srun(self, line: str) -> None:
        found = _SRUN.search(line)
        if found:
            codes = {"Killed": 137, "Terminated": 143, "Out Of Memory": 1, "Segmentation fault": 139}
            code = int(found["code"]) if found["code"] else codes[found["how"]]
            self._add(ProcessEnd(int(found["rank"]), code, found["host"]))

    def _spawn(self, line: str) -> None:
        found = _SPAWN.search(line)
        if found:
            self._add(ProcessEnd(int(found["rank"]), 1, root_cause=True))

    def _elastic(self, line: str) -> None:
        for key, pattern in _ELASTIC.items():
            found = pattern.search(line)
            if found:
                self._open[key] = found[1]
        if "exitcode" in self._open and "rank" in self._open:
            was = self._open
            self._add(
                ProcessEnd(int(was["rank"]), int(was["exitcode"]), was.get("host", ""), was.get("time", ""), self._root)
            )
            self._open, self._root = {}, False

    def _add(self, end: ProcessEnd) -> None:
        key = (end.host, end.rank)
        if key not in self.ends and len(self.ends) < 4096:
            self.ends[key] = end

    def first(self) -> ProcessEnd | None:
        """The process that failed first by itself; None if no launcher said so."""
        own = [end for end in self.ends.values() if end.own_failure]
        if not own:
            own = [end for end in self.ends.values() if end.root_cause]
        return min(own, key=_order, default=None)

    def victims(self) -> list[int]:
        """Ranks that were stopped because another failed."""
        first = self.first()
        if first is None:
            return []
        return sorted(
            {end.rank for end in self.ends.values() if end.rank is not None and not end.own_failure} - {first.rank}
        )


def _order(end: ProcessEnd) -> tuple[str, bool, int]:
    return end.time or "9", not end.root_cause, end.rank if end.rank is not None else 1 << 30
