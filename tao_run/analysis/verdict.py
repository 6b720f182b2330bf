"""From all findings to one: what is explained by what, what was survived, and who failed first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tao_run.analysis.hits import Finding, Hit
from tao_run.analysis.ranks import ProcessEnd, RankStory
from tao_run.analysis.result import FirstFailed
from tao_run.analysis.ruleset import CERTAINTIES

_CONSEQUENCE = CERTAINTIES.index("consequence")
_CHAIN_LINES = 300  # an exception and the one raised while it was handled are this close
_SURVIVED_LINES = 2000
_SURVIVED_SHARE = 0.05
FINAL = ("assertion", "python-exception")  # rules that see how a program ended, whatever the text
_PLACEHOLDER = re.compile(r"\{(\w+)\|([^}]*)\}")


def choose(
    findings: Iterable[Finding], total_lines: int, chain_marks: Sequence[int], story: RankStory | None = None
) -> Finding | None:
    """The finding that explains the failure, or None if there is none.

    A finding that a stronger one explains (`outranks`) is out; so is an error after which the log went on for
    long, unless nothing else is left. What only says that a process fell with another one or was stopped is out
    where one failed by itself. Among equals the first process's last error decides.
    """
    present = list(findings)
    fresh = [item for item in present if not survived(item, total_lines)] or present
    fresh = _without_victims(fresh, story or RankStory())
    explained = {rule for item in fresh for rule in item.rule.outranks if rule != item.rule.id}
    left = [item for item in fresh if item.rule.id not in explained] or fresh
    strongest = min((item.rule.strength for item in left), default=None)
    equals = [item for item in left if item.rule.strength == strongest]
    chosen = _first_of_equals(equals, chain_marks) if equals else None
    return _unless_it_went_on(chosen, present, chain_marks)


def _without_victims(fresh: list[Finding], story: RankStory) -> list[Finding]:
    """Without what victims say, if a process failed by itself: whatever came first in the log, it is the cause."""
    own = [item for item in fresh if not item.rule.victim]
    if any(item.rule.id in FINAL for item in own):
        return own
    if story.killed_first():
        return [item for item in fresh if not item.rule.victim or item.rule.id == "killed"]
    stopped = {hit.place for item in fresh if item.rule.victim for hit in item if hit.source == "log"}
    if story.exited(stopped):
        left = [item for item in fresh if not item.rule.victim or item.rule.strength == _CONSEQUENCE]
        return left if left or story.replicas else fresh
    return fresh


def _unless_it_went_on(chosen: Finding | None, present: list[Finding], chain_marks: Sequence[int]) -> Finding | None:
    """Words that are only possibly a cause give way to an exception that ended the program after them."""
    if chosen is None or chosen.rule.certainty != "possible" or chosen.from_backend:
        return chosen
    for other in (item for item in present if item.rule.id not in chosen.rule.outranks):
        later = other.rule.id in FINAL and other.latest > chosen.latest
        if later and not any(chosen.latest < mark < other.latest for mark in chain_marks):
            return other
    return chosen


def survived(finding: Finding, total_lines: int) -> bool:
    """Whether the log went on so long after the last hit that the program cannot have died of it."""
    if finding.from_backend:
        return False
    return total_lines - finding.latest > max(_SURVIVED_LINES, total_lines * _SURVIVED_SHARE)


def _first_of_equals(equals: list[Finding], chain_marks: Sequence[int]) -> Finding:
    told = [item for item in equals if item.from_backend]
    if told:
        return told[0]
    per_process: dict[tuple[int | None, int | None, str], list[tuple[int, Finding]]] = {}
    for finding in equals:
        for who, hit in finding.by_process.items():
            per_process.setdefault(who, []).append((hit.number, finding))
    reasons = [_reason_of(hits, chain_marks) for hits in per_process.values()]
    return min(reasons, key=lambda item: (item[1].rule.victim, item[0]))[1]


def _reason_of(hits: list[tuple[int, Finding]], chain_marks: Sequence[int]) -> tuple[int, Finding]:
    """The last error of one process, or the one that it was raised in the handling of."""
    ordered = sorted(hits, key=lambda item: item[0], reverse=True)
    chosen = ordered[0]
    for number, finding in ordered[1:]:
        linked = any(number < mark < chosen[0] for mark in chain_marks)
        if linked and chosen[0] - number < _CHAIN_LINES:
            chosen = (number, finding)
    return chosen


def first_failed(chosen: Finding, story: RankStory, fallen: set[int]) -> FirstFailed:
    """Who failed first: who wrote the line of the cause, and what launchers and exit codes say of that process.

    `fallen` are ranks that say themselves that they fell with another one.
    """
    hit = cause(chosen, story, fallen)
    placed = hit.rank is not None or hit.replica or hit.node_rank is not None
    if placed and (not chosen.rule.victim or (hit.source == "exit" and len(chosen.by_process) == 1)):
        return _of_hit(hit, story, fallen)
    told = story.first(fallen=fallen)
    if told is not None:
        return FirstFailed(told.rank, told.place[0], told.place[1], told.host, told.exit_code, told.time)
    if chosen.rule.victim and len(chosen.by_process) > 1:
        return FirstFailed()  # all that speak are victims: whoever is silent failed
    return _of_hit(hit, story, fallen)


def first_replica(story: RankStory) -> FirstFailed:
    """The replica that failed first, where exit codes are all that is known."""
    end = story.first_replica()
    return FirstFailed() if end is None else FirstFailed(None, *end.place, end.host, end.exit_code)


def cause(finding: Finding, story: RankStory, fallen: set[int]) -> Hit:
    """The line of the cause: backend facts first, then the process that launchers say failed first."""
    told = None if finding.from_backend else story.first(fallen=fallen)
    own = [hit for hit in finding.by_process.values() if told and hit.rank is not None and hit.rank == told.rank]
    return own[0] if own else finding.first[0]


def _of_hit(hit: Hit, story: RankStory, fallen: set[int]) -> FirstFailed:
    told = next((end for end in story.ends.values() if end.rank == hit.rank and hit.rank is not None), None)
    if told is None and hit.rank is None and hit.source == "log":
        told = story.first(hit.place, fallen)
    told = told or ProcessEnd(hit.rank)
    time = hit.time.isoformat() if hit.time else told.time
    replica = story.replica(hit.place)
    code = replica.exit_code if told.exit_code is None else told.exit_code
    return FirstFailed(told.rank, hit.node_rank, hit.replica, hit.node or told.host or replica.host, code, time)


def fallen_ranks(findings: Iterable[Finding]) -> set[int]:
    """Process ranks that say of themselves that they fell with another one."""
    fell = (item for item in findings if item.rule.victim or item.rule.strength == _CONSEQUENCE)
    return {rank for item in fell for rank, _, _ in item.by_process if rank is not None}


def victims(first: FirstFailed, story: RankStory, fallen: set[int]) -> tuple[int, ...]:
    """Process ranks that only fell with the first one; of replicas where nothing tells more of their processes."""
    told = {*story.victims(story.first(fallen=fallen)), *fallen} - {first.rank}
    return tuple(sorted(told or story.fallen_replicas() - {first.node_rank}))


def fill(text: str, details: Mapping[str, str]) -> str:
    """`{name|otherwise}` replaced by the detail of that name, or by the words after the bar."""
    return _PLACEHOLDER.sub(lambda found: _shown(found, details), text)


def _shown(found: re.Match[str], details: Mapping[str, str]) -> str:
    value = details.get(found[1])
    if value is None:
        return found[2].strip() if found[2].strip() else ""
    return f" ({value.strip()})" if not found[2].strip() else value.strip()
