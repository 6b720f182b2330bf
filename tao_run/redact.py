"""Keeps secret values out of every text: known values are replaced before anything is shown or stored."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

MASK = "[redacted]"
_SHORTEST = 4  # a shorter value would blank out ordinary text
_known: set[str] = set()


def register(values: Iterable[str]) -> None:
    """Remember secret values, and the forms in which libraries print them (URL-quoted, JSON, base64)."""
    for value in values:
        if len(value) >= _SHORTEST:
            _known.update(_forms(value))


def redact(text: str) -> str:
    """`text` with every known secret replaced by `[redacted]`."""
    for secret in sorted(_known, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, MASK)
    return text


def holds_secret(text: str) -> bool:
    """Whether a known secret value is part of `text`."""
    return any(secret in text for secret in _known)


def _forms(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogateescape")
    forms = {value, quote(raw), quote_plus(raw), json.dumps(value)[1:-1], repr(value)[1:-1]}
    return {*forms, base64.b64encode(raw).decode("ascii").rstrip("=")}
