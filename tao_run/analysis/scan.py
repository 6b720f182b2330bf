"""Fast search of logs of any size: blocks of bytes in, the few lines that matter out, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from tao_run.analysis.ruleset import Pattern, Rule, RuleSet
from tao_run.jobs.model import LogLine

BLOCK = 4 * 1024 * 1024  # bytes read at once
LONGEST = 2000  # characters kept of one line, around what was found
LINES_AT_ONCE = 4000
_SKELETONS_KEPT = 100_000
_LONGEST_CARRY = 16 * 1024 * 1024
# What differs between lines that say the same: numbers, times, progress bars.
_DROPPED = bytes(b"0123456789.:,-+%|#<>[]() \t" + bytes(range(0x80, 0x100)))


# Parts that many literals share: where a block has none of them, none of those literals needs to be looked for.
_STEMS = tuple(
    b"tion rror able iled file nval ERRO emor matc ould cess onfi CUDA NCCL anno evic xpec irec mage nect ount".split()
)


@dataclass(frozen=True)
class Candidate:
    """A line that holds one of the literals: its index in the block, its text, and which literals they are."""

    index: int
    text: str
    literals: tuple[str, ...]


class Prefilter:
    """Finds the lines that hold any of the literals, without looking at every line.

    Logs repeat themselves: without digits, punctuation and bars most lines are the same. Each such skeleton is
    searched once, and only lines whose skeleton holds a literal are looked at as they are.
    """

    def __init__(self, literals: Iterable[str]) -> None:
        self._bare = {text: text.encode().translate(None, _DROPPED) for text in sorted(set(literals))}
        self._first_look = _by_stem(_without_parts_of_others(set(self._bare.values())))
        self._hot: dict[bytes, tuple[str, ...]] = {}
        self._cold: set[bytes] = set()

    def candidates(self, block: bytes) -> Iterator[Candidate]:
        """Lines in order. A carriage return ends a line too (progress bars), but is not counted as one."""
        skeletons = block.translate(None, _DROPPED).split(b"\n")
        self._learn(set(skeletons))
        hot = self._hot
        places = [index for index, skeleton in enumerate(skeletons) if skeleton in hot]
        if not places:
            return
        lines = block.split(b"\n")
        for index in places:
            yield from _candidates_of(lines[index], index, hot[skeletons[index]])

    def _learn(self, skeletons: set[bytes]) -> None:
        if len(self._cold) + len(self._hot) > _SKELETONS_KEPT:
            self._cold, self._hot = set(), {}
        new = [item for item in skeletons if item not in self._cold and item not in self._hot]
        joined = b"\n".join(new)
        likely = (literals for stem, literals in self._first_look.items() if stem in joined)
        found = [literal for literals in likely for literal in literals if literal in joined]
        for skeleton in new:
            if any(literal in skeleton for literal in found):
                self._hot[skeleton] = tuple(text for text, bare in self._bare.items() if bare in skeleton)
            else:
                self._cold.add(skeleton)


def _candidates_of(line: bytes, index: int, literals: tuple[str, ...]) -> Iterator[Candidate]:
    text = line.decode("utf-8", "replace")
    for piece in text.split("\r"):
        places = [(at, literal) for literal in literals if (at := piece.find(literal)) >= 0]
        if places:
            start = max(0, min(places)[0] - LONGEST // 2) if len(piece) > LONGEST else 0
            yield Candidate(index, piece[start : start + LONGEST], tuple(literal for _, literal in places))


def _without_parts_of_others(literals: set[bytes]) -> tuple[bytes, ...]:
    """The literals that hold no other one: whoever holds those holds these."""
    return tuple(sorted(one for one in literals if not any(other != one and other in one for other in literals)))


def _by_stem(literals: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """Literals by a part that they share; one that shares none is its own."""
    groups: dict[bytes, list[bytes]] = {}
    for literal in literals:
        groups.setdefault(next((stem for stem in _STEMS if stem in literal), literal), []).append(literal)
    return groups


class Matcher:
    """Which rules a line fits: patterns are looked up by their literals."""

    def __init__(self, rules: RuleSet) -> None:
        self._harmless = rules.harmless
        self.by_literal: dict[str, list[tuple[Pattern, Rule]]] = {}
        for rule in rules:
            for pattern in rule.patterns("log"):
                for literal in pattern.has:
                    self.by_literal.setdefault(literal, []).append((pattern, rule))

    def match(
        self, candidate: Candidate, tired: Set[str] = frozenset()
    ) -> Iterator[tuple[Rule, dict[str, str] | None]]:
        """Rule and details, each rule once. For a rule in `tired` details are None: it was not looked at closely."""
        seen: set[str] = set()
        for literal in candidate.literals:
            for pattern, rule in self.by_literal.get(literal, ()):
                if rule.id in seen:
                    continue
                if rule.id in tired:
                    seen.add(rule.id)
                    yield rule, None
                elif (details := pattern.groups(candidate.text)) is not None and not self._is_harmless(candidate):
                    seen.add(rule.id)
                    yield rule, details

    def _is_harmless(self, candidate: Candidate) -> bool:
        return any(words in candidate.text for words in self._harmless)


def blocks(stream: BinaryIO, size: int = BLOCK) -> Iterator[bytes]:
    """Whole lines in blocks of about `size` bytes; a line of more than 16 MiB is cut."""
    rest = b""
    while chunk := stream.read(size):
        cut = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if cut or len(rest) > _LONGEST_CARRY:
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        else:
            rest += chunk
    if rest:
        yield rest


def batches(lines: Iterable[LogLine]) -> Iterator[tuple[bytes, list[LogLine]]]:
    """Lines of a stream as blocks, with the lines they were made of."""
    source = iter(lines)
    while batch := list(islice(source, LINES_AT_ONCE)):
        yield b"\n".join(line.text.replace("\n", " ").encode("utf-8", "replace") for line in batch), batch
