"""What was seen: single hits of a rule, and the bounded memory of all hits of one rule."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tao_run.analysis.ranks import Place
from tao_run.analysis.ruleset import Rule
from tao_run.jobs.model import LogLine

KEPT = 3  # hits kept from the beginning, and as many from the end
RANKS_KEPT = 4096
TIRED = 1000  # hits after which a rule is only looked for at the end of a log
UNREAD_KEPT = 200


@dataclass(frozen=True)
class Hit:
    """One line that fits a rule. `number` is its place in the log from 1; 0 for what the backend says.

    `rank` is the process rank that the line names, `node_rank` and `replica` are where the line came from.
    """

    text: str
    number: int = 0
    source: str = "log"
    time: datetime | None = None
    rank: int | None = None
    node_rank: int | None = None
    replica: str = ""
    node: str = ""
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Where it comes from: node rank and replica."""
        return self.node_rank, self.replica

    @property
    def who(self) -> tuple[int | None, int | None, str]:
        """Which process: rank, node rank and replica, as far as they are known."""
        return self.rank, self.node_rank, self.replica


class Finding:
    """All hits of one rule: the first and last few, how many, and the last of each rank."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.count = 0
        self.first: list[Hit] = []
        self.last: deque[Hit] = deque(maxlen=KEPT)
        self.by_process: dict[tuple[int | None, int | None, str], Hit] = {}
        self.unread: deque[tuple[int, str, LogLine | None]] = deque(maxlen=UNREAD_KEPT)

    def add(self, hit: Hit) -> None:
        """Remember a hit; memory stays the same however many there are."""
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(hit)
        else:
            self.last.append(hit)
        if len(self.by_process) < RANKS_KEPT or hit.who in self.by_process:
            self.by_process[hit.who] = hit

    @property
    def latest(self) -> int:
        """The place of the last hit in the log."""
        return (self.last or self.first)[-1].number

    @property
    def from_backend(self) -> bool:
        """Whether the backend itself says so, not only the log."""
        return self.first[0].source != "log"

    def __iter__(self) -> Iterator[Hit]:
        yield from self.first
        yield from self.last
