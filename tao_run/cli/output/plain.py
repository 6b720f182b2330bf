"""Text from outside made harmless, and typed results as plain data."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

# escape sequences as a whole (CSI, OSC, other), then any control character that is left, C1 and bidi included
_SEQUENCES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[@-Z\\-_])"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_CONTROLS_NO_NEWLINE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """`text` without terminal control; newlines and tabs stay. Carriage returns and others become spaces or vanish."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def plain_line(text: str) -> str:
    """One line of a log for a terminal: what a progress bar drew last, without any terminal control."""
    last = text.rstrip("\r").rpartition("\r")[2]
    return _CONTROLS_NO_NEWLINE.sub("", _SEQUENCES.sub("", last))


def to_data(value: Any) -> Any:
    """Dataclasses (by their own `to_dict` if they have one), enums, times and paths as what JSON knows.

    Times are ISO 8601 in UTC.
    """
    if hasattr(value, "to_dict"):
        return to_data(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_data(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Path) else value
