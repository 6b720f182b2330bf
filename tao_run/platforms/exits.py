"""Exit codes in words."""

from __future__ import annotations

_LAST_SIGNAL = 64


def exit_words(code: int) -> str:
    """What a shell's exit code says of the command: its own code, or 128 + n for signal n."""
    if 128 < code <= 128 + _LAST_SIGNAL:
        return f"the command was ended by signal {code - 128}"
    return f"the command exited with {code}"
