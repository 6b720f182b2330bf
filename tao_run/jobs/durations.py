"""Durations as people write them: 90s, 15m, 4h, 1d, 1h30m, HH:MM:SS."""

from __future__ import annotations

import re

from tao_run.errors import UsageError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{2}):(\d{2})")


def parse_duration(text: str | int | float) -> int:
    """Seconds in `text`; a bare number is seconds. Raises UsageError for anything else."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return _positive(float(text), str(text))
    value = str(text).strip().lower()
    clock = _CLOCK.fullmatch(value)
    if clock:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return _positive(days * 86400 + hours * 3600 + minutes * 60 + seconds, value)
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return _positive(float(value), value)
    if _PART.sub("", value) == "" and value:
        return _positive(sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(value)), value)
    raise UsageError(f"{text!r} is not a duration", "write 90s, 15m, 4h, 1d, 1h30m or HH:MM:SS")


def _positive(seconds: float, text: str) -> int:
    if not 0 < seconds < 10**9:
        raise UsageError(f"{text!r} is not a usable duration: it must be more than zero")
    return max(1, round(seconds))


def short_duration(seconds: float) -> str:
    """A duration for people: `45s`, `12m`, `3h05m`, `2d04h`."""
    whole = int(max(0, seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"
