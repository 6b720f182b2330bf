"""Spec keys such as `dataset.sources[0].image_dir`: read, set and remove values in nested data."""

from __future__ import annotations

import re
from typing import Any, List, Tuple, Union

from .errors import PlanError

Part = Union[str, int]
MISSING: Any = object()
_PART = re.compile(r"(?P<name>[^.\[\]]+)|\[(?P<index>-?\d+)\]")
_STEP = r"[^.\[\]]+(?:\[-?\d+\])*"
_KEY = re.compile(rf"{_STEP}(?:\.{_STEP})*")
_PATH_LIKE = re.compile(r"[A-Za-z_][\w-]*(?:\[\d+\]|\.[A-Za-z_][\w-]*)+")
_MAX_INDEX = 100_000  # a larger index is a mistake, and padding a list up to it would fill the memory


def parse_key(key: str) -> Tuple[Part, ...]:
    """The parts of a key: `a.b[0].c` -> ("a", "b", 0, "c"). Raises PlanError if it is none."""
    if not _KEY.fullmatch(key):
        raise PlanError(f"{key!r} is not a spec key", "write it like dataset.sources[0].image_dir")
    return tuple(match.group("name") or int(match.group("index")) for match in _PART.finditer(key))


def get(data: Any, key: str, default: Any = None) -> Any:
    """The value at `key`, or `default` if there is none."""
    for part in parse_key(key):
        data = _step(data, part)
        if data is MISSING:
            return default
    return data


def _step(data: Any, part: Part) -> Any:
    if isinstance(part, str):
        return data.get(part, MISSING) if isinstance(data, dict) else MISSING
    if isinstance(data, list) and -len(data) <= part < len(data):
        return data[part]
    return MISSING


def put(data: Any, key: str, value: Any) -> None:
    """Set the value at `key`, making what is not there on the way. Raises PlanError if something else is there."""
    parts = parse_key(key)
    for position, part in enumerate(parts[:-1]):
        inner = _step(data, part)
        if inner is MISSING or inner is None:
            inner = [] if isinstance(parts[position + 1], int) else {}
            _set(data, part, inner, key)
        data = inner
    _set(data, parts[-1], value, key)


def _set(data: Any, part: Part, value: Any, key: str) -> None:
    if isinstance(part, str) and isinstance(data, dict):
        data[part] = value
    elif isinstance(part, int) and isinstance(data, list) and -len(data) <= part <= _MAX_INDEX:
        while len(data) <= part:
            data.append({})
        data[part] = value
    else:
        found = type(data).__name__
        raise PlanError(f"spec key {key!r} does not fit the spec: {part!r} would go into a {found}")


def remove(data: Any, key: str) -> None:
    """Remove the value at `key`, if it is there."""
    parts = parse_key(key)
    for part in parts[:-1]:
        data = _step(data, part)
    last = parts[-1]
    if _step(data, last) is not MISSING:
        del data[last]


def dotted_keys(data: Any, prefix: str = "") -> List[str]:
    """Where mappings have keys that read like a path: nearly always nested data that was written flat."""
    found: List[str] = []
    if isinstance(data, dict):
        for key, value in data.items():
            here = joined(prefix, key)
            found += [here] if isinstance(key, str) and _PATH_LIKE.fullmatch(key) else []
            found += dotted_keys(value, here)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            found += dotted_keys(value, f"{prefix}[{index}]")
    return found


def nested_form(key: str, value: Any) -> Any:
    """The nested data that a flat dotted key stands for."""
    data: Any = {}
    put(data, key, value)
    return data


def joined(where: str, key: Any) -> str:
    """The key of a value one step further down."""
    return f"{where}.{key}" if where else str(key)
