"""Reading the API's documents without trusting their shape: what is of another type than expected is not there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

_LARGEST = 2**63 - 1  # what the record holds


def part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under a key; empty if there is none."""
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def parts(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The objects of the list under a key; empty if there is none."""
    value = document.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def strings(document: Mapping[str, Any], key: str) -> list[str]:
    """The texts of the list under a key; empty if there is none."""
    value = document.get(key)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def word(value: Any) -> str:
    """A text or a number as text; anything else is empty."""
    return str(value) if isinstance(value, (str, int, float)) else ""


def amount(value: Any) -> float:
    """A quantity of a document; null and nonsense are 0."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return 0
    return value if abs(value) <= _LARGEST else 0


def number(value: Any) -> int:
    """A counter of a document; null and nonsense are 0."""
    return max(0, int(amount(value)))


def moment(value: Any) -> datetime | None:
    """A time in s, ms, us or ns since the epoch, told apart by size as the vendor's client does."""
    stamp = number(value)
    if stamp <= 0:
        return None
    for threshold, scale in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)):
        if stamp > threshold:
            return datetime.fromtimestamp(stamp / scale, timezone.utc)
    return datetime.fromtimestamp(stamp, timezone.utc)
