"""The key language of specs: `a.b[0].c`, `a[0][1]`, names with hyphens."""

from __future__ import annotations

import copy
import re
from typing import Any

from tao_run.errors import UsageError

_PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_KEY = re.compile(r"[^.\[\]]+(?:\[\d+\])*(?:\.[^.\[\]]+(?:\[\d+\])*)*")
_LONGEST_LIST = 10_000
# OmegaConf's mark of a value that the user has to give
MANDATORY = "???"
MISSING = object()


def parse_key(key: str) -> list[str | int]:
    """The steps of a key: names and list positions. Raises UsageError."""
    if not _KEY.fullmatch(key):
        raise UsageError(f"{key!r} is not a spec key", "write a.b[0].c")
    return [name or int(index) for name, index in _PART.findall(key)]


def set_value(spec: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy of `spec` with one key set; what is missing on the way is made. Raises UsageError."""
    result = copy.deepcopy(spec)
    steps = parse_key(key)
    place: Any = result
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if following is None:
            _put(place, step, value, key)
        else:
            place = _descend(place, step, [] if isinstance(following, int) else {}, key)
    return result


def get_value(spec: Any, key: str) -> Any:
    """The value at a key, or MISSING. Raises UsageError for what is no key."""
    for step in parse_key(key):
        try:
            spec = spec[step]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return spec


def _descend(place: Any, step: str | int, empty: Any, key: str) -> Any:
    found = _get(place, step, key)
    if found is None or found == "" or found == MANDATORY:
        _put(place, step, empty, key)
        return empty
    return found


def _get(place: Any, step: str | int, key: str) -> Any:
    if isinstance(step, int) and isinstance(place, list):
        return place[step] if step < len(place) else None
    if isinstance(step, str) and isinstance(place, dict):
        return place.get(step)
    raise UsageError(f"{key!r} does not fit the spec: at {step!r} there is a {type(place).__name__}")


def _put(place: Any, step: str | int, value: Any, key: str) -> None:
    _get(place, step, key)
    if isinstance(step, int):
        if step > _LONGEST_LIST:
            raise UsageError(f"{key!r}: list position {step} is out of reason")
        place.extend([None] * (step + 1 - len(place)))
    place[step] = value
