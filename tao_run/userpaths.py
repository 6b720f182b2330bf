"""Paths as users write them: `~`, relative to where the command was typed, on machines without a home."""

from __future__ import annotations

from pathlib import Path

from tao_run.errors import UsageError


def home() -> Path:
    """The user's home directory. Raises UsageError if HOME is not set and the user is in no password file."""
    try:
        return Path.home()
    except RuntimeError:
        raise UsageError("this user has no home directory", "set HOME") from None


def own_path(text: str) -> Path:
    """The absolute path that a user means. Raises UsageError for the home of somebody who does not exist."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise UsageError(f"{text}: there is no such user", "write the whole path") from None
    except FileNotFoundError:
        hint = "change to one that exists, or write the whole path"
        raise UsageError(f"{text}: the current directory does not exist any more", hint) from None
