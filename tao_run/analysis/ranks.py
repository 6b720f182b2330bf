"""Which process failed first and which only fell with it, read from labels, launchers and exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
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
_LABEL = r"^\W*(?:\[[^\]]*\]:?|\d+:|[EWI]\d{4} [^\]]*\])?\s+"
_ELASTIC = {
    "time": re.compile(_LABEL + r"time\s+: (\S+)"),
    "host": re.compile(_LABEL + r"host\s+: (\S+)"),
    "rank": re.compile(_LABEL + r"rank\s+: (\d+) \(local_rank: \d+\)"),
    "exitcode": re.compile(_LABEL + r"exitcode\s+: (-?\d+)"),
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
_KILLED = frozenset({137, -9})
_ABORTED = frozenset({134, -6})  # how NCCL's watchdog ends the ranks that wait for a lost one
#: where lines come from: rank of the node and name of the replica, as far as they are known
Place = tuple[int | None, str]
NOWHERE: Place = (None, "")


def same_place(one: Place, other: Place) -> bool:
    """Whether both are the same replica: by its rank, or by its name where a rank is not known."""
    if one[0] is not None and other[0] is not None:
        return one[0] == other[0]
    return one[1] == other[1] != ""


def first_codes(codes: Iterable[int]) -> set[int]:
    """Which of several exit codes are of processes that failed first: the others fell with them.

    A code of the program's own counts most, then a single SIGKILL among SIGTERMs and aborts.
    """
    failed = [code for code in codes if code]
    own = {code for code in failed if code not in VICTIM_CODES | _ABORTED}
    if own:
        return own
    killed = [code for code in failed if code in _KILLED]
    return set(killed) if len(killed) == 1 else set(failed) - VICTIM_CODES or set(failed)


@dataclass(frozen=True)
class ProcessEnd:
    """How one process ended, as a launcher tells it."""

    rank: int | None
    exit_code: int | None = None
    host: str = ""
    time: str = ""
    root_cause: bool = False
    place: Place = NOWHERE

    @property
    def own_failure(self) -> bool:
        """Whether it failed by itself, as far as the exit code can tell."""
        return self.exit_code not in VICTIM_CODES and self.exit_code != 0

    @property
    def by_itself(self) -> bool:
        """Whether it ended with a code of its own, not by a signal."""
        return self.exit_code is not None and 0 < self.exit_code <= 128


def rank_of(line: str) -> int | None:
    """The process rank that a line names, if it does."""
    found = _RANK.search(line)
    return None if found is None else int(next(group for group in found.groups() if group is not None))


@dataclass
class RankStory:
    """Collects how processes ended while a log goes by; `replicas` is what the backend says of its workers."""

    ends: dict[tuple[str, int | None], ProcessEnd] = field(default_factory=dict)
    replicas: list[ProcessEnd] = field(default_factory=list)
    _open: dict[Place, dict[str, str]] = field(default_factory=dict)
    _root: set[Place] = field(default_factory=set)

    def see(self, line: str, place: Place = NOWHERE) -> None:
        """Take note of a line that a launcher wrote about its processes."""
        if "Root Cause (first observed failure)" in line:
            self._root.add(place)
        elif "srun: error: " in line:
            self._srun(line)
        elif line.startswith("-- Process "):
            self._spawn(line, place)
        else:
            self._elastic(line, place)

    def _srun(self, line: str) -> None:
        found = _SRUN.search(line)
        if found:
            codes = {"Killed": 137, "Terminated": 143, "Out Of Memory": 1, "Segmentation fault": 139}
            code = int(found["code"]) if found["code"] else codes[found["how"]]
            self._add(ProcessEnd(int(found["rank"]), code, found["host"]))

    def _spawn(self, line: str, place: Place) -> None:
        found = _SPAWN.search(line)
        if found:
            self._add(ProcessEnd(int(found["rank"]), 1, root_cause=True, place=place))

    def _elastic(self, line: str, place: Place) -> None:
        was = self._open.setdefault(place, {})
        was.update({key: found[1] for key, pattern in _ELASTIC.items() if (found := pattern.search(line))})
        if "exitcode" in was and "rank" in was:
            host, time, root = was.get("host", ""), was.get("time", ""), place in self._root
            self._add(ProcessEnd(int(was["rank"]), int(was["exitcode"]), host, time, root, place))
            del self._open[place]
            self._root.discard(place)

    def _add(self, end: ProcessEnd) -> None:
        key = (end.host, end.rank)
        if key not in self.ends and len(self.ends) < 4096:
            self.ends[key] = end

    def first(self, place: Place = NOWHERE, fallen: Set[int | None] = frozenset()) -> ProcessEnd | None:
        """The process that failed first, in one place if it is given; None if no launcher said so.

        `fallen` are ranks that say themselves that they fell with another: they count only if there is no other.
        """
        here = [end for end in self.ends.values() if _is_at(end, place)]
        codes = first_codes(end.exit_code or 0 for end in here)
        failed = [end for end in here if end.exit_code in codes]
        if not any(end.own_failure for end in failed) and len(failed) > 1:
            failed = [end for end in failed if end.root_cause]
        return min(failed, key=lambda end: (end.rank in fallen, *_order(end)), default=None)

    def exited(self, stopped: Set[Place]) -> bool:
        """Whether a process ended with a code of its own where others were stopped.

        `stopped` are the places that say they were stopped: a launcher there ends with a code of its own too.
        """
        own = any(end.by_itself for end in self.ends.values())
        return own or any(
            end.by_itself and not any(same_place(end.place, place) for place in stopped) for end in self.replicas
        )

    def killed_first(self) -> bool:
        """Whether a single process was killed and no other one failed by itself."""
        for ends in (list(self.ends.values()), self.replicas):
            codes = [end.exit_code for end in ends if end.exit_code]
            told = len(codes) > 1 or any(end.root_cause for end in ends)
            if told and first_codes(codes) <= _KILLED and sum(code in _KILLED for code in codes) == 1:
                return True
        return False

    def replica(self, place: Place) -> ProcessEnd:
        """What the backend says of the replica in a place."""
        return next((end for end in self.replicas if same_place(end.place, place)), ProcessEnd(None))

    def first_replica(self) -> ProcessEnd | None:
        """The only replica whose exit code says that it failed by itself; None if there is no such one."""
        codes = first_codes(end.exit_code or 0 for end in self.replicas)
        failed = [end for end in self.replicas if end.exit_code in codes]
        return failed[0] if len(failed) == 1 else None

    def victims(self, first: ProcessEnd | None) -> list[int]:
        """Ranks that were stopped because another failed."""
        if first is None:
            return []
        fell = {end.rank for end in self.ends.values() if end.rank is not None and not end.own_failure}
        return sorted(fell - {first.rank})

    def fallen_replicas(self) -> set[int]:
        """Ranks of the replicas that were stopped because another failed, as their exit codes tell."""
        codes = first_codes(end.exit_code or 0 for end in self.replicas)
        return {
            end.place[0]
            for end in self.replicas
            if end.place[0] is not None and end.exit_code and end.exit_code not in codes
        }


def _is_at(end: ProcessEnd, place: Place) -> bool:
    if NOWHERE in (place, end.place):
        return place[0] is None or end.rank == place[0] or end.place != NOWHERE
    return same_place(end.place, place)


def _order(end: ProcessEnd) -> tuple[str, bool, int]:
    return end.time or "9", not end.root_cause, end.rank if end.rank is not None else 1 << 30
