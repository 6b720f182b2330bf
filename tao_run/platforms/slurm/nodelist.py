"""SLURM's compressed host lists: `gpu[01-03,7],login1` -> the names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

_BRACKET = re.compile(r"\[([^\]]*)\]")
_NOWHERE = frozenset({"", "(null)", "None assigned", "None", "N/A", "n/a"})


def expand(text: str) -> list[str]:
    """All node names of a host list, in its order; none for `None assigned` and the like."""
    if text.strip() in _NOWHERE:
        return []
    return [name for part in _split(text.strip()) for name in _names(part)]


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are not inside brackets."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _names(part: str) -> Iterator[str]:
    pieces = _BRACKET.split(part)
    # split with one group alternates: text, bracket content, text, ...
    choices = [list(_numbers(piece)) if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return ("".join(name) for name in itertools.product(*choices))


def _numbers(ranges: str) -> Iterator[str]:
    for item in ranges.split(","):
        first, dash, last = item.partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
        else:
            yield item
