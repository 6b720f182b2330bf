"""Lists as people write them on a command line: `a,b,c`."""

from __future__ import annotations

from typing import Any


def comma_parts(text: str) -> list[str]:
    """The parts of `a, b,c` without the spaces around them; empty ones do not count."""
    return [part.strip() for part in text.split(",") if part.strip()]


def listed(value: Any) -> Any:
    """For a model's list: text is taken apart at its commas, anything else is left for the model to judge."""
    return comma_parts(value) if isinstance(value, str) else value
