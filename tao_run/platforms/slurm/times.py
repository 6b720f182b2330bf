"""SLURM's way of writing durations: `90` minutes, `1-00:00:00`, `UNLIMITED`."""

from __future__ import annotations

import re

from tao_run.errors import UsageError
from tao_run.jobs.durations import parse_duration

_DAYS = re.compile(r"(\d+)-(\d+)(?::(\d+))?(?::(\d+))?")
_CLOCK = re.compile(r"(\d+)(?::(\d+))?(?::(\d+))?")


def slurm_seconds(text: str) -> int | None:
    """Seconds in a SLURM duration; None for UNLIMITED, infinite and n/a.

    Forms (man sbatch, --time): minutes, minutes:seconds, hours:minutes:seconds, days-hours,
    days-hours:minutes, days-hours:minutes:seconds. Raises UsageError for anything else.
    """
    value = text.strip()
    if value.lower() in ("unlimited", "infinite", "n/a", "not_set", "none", ""):
        return None
    days = _DAYS.fullmatch(value)
    if days:
        day, hour, minute, second = (int(part or 0) for part in days.groups())
        return day * 86400 + hour * 3600 + minute * 60 + second
    clock = _CLOCK.fullmatch(value)
    if not clock:
        raise UsageError(f"{text!r} is not a SLURM duration", "write 4h, 90 (minutes), 4:00:00 or 1-12:00:00")
    first, second_part, third = clock.groups()
    if third is not None:
        return int(first) * 3600 + int(second_part or 0) * 60 + int(third)
    return int(first) * 60 + int(second_part or 0)


def time_limit(text: str) -> int:
    """Seconds of a time limit as users write it: SLURM's forms, or with a unit (`4h`, `1h30m`).

    A bare number is minutes, as in sbatch. Raises UsageError; also for no limit at all, which nothing checks.
    """
    seconds = parse_duration(text) if re.search(r"[smhd]", text.lower()) and "-" not in text else slurm_seconds(text)
    if not seconds:
        raise UsageError(f"time={text!r} is not a usable time limit", "write 4h, 90 (minutes) or 1-12:00:00")
    return seconds


def slurm_duration(seconds: int) -> str:
    """`D-HH:MM:SS` of a duration in seconds, without the days if there are none."""
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock
