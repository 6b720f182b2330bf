"""Keeps secret values out of every text: known values are replaced before anything is shown or stored."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

MASK = "[redacted]"
_SHORTEST = 4  # a shorter value would blank out ordinary text
_UNMISTAKABLE = 12  # a value this long is never part of an ordinary word or path by chance
_known: dict[str, re.Pattern[str]] = {}


def register(values: Iterable[str]) -> None:
    """Remember secret values, and the forms in which libraries print them (URL-quoted, JSON, base64)."""
    for value in values:
        if len(value) >= _SHORTEST:
            _known.update({form: _pattern(form) for form in _forms(value) if form not in _known})


def redact(text: str) -> str:
    """`text` with every known secret replaced by `[redacted]`. A short one only where it stands by itself."""
    for secret in sorted(_known, key=len, reverse=True):
        if secret in text:
            text = _known[secret].sub(MASK, text)
    return text


def holds_secret(text: str) -> bool:
    """Whether `text` is a known secret value, or has one in it that is too long to be there by chance."""
    return any(text == secret or (len(secret) >= _UNMISTAKABLE and secret in text) for secret in _known)


def _pattern(secret: str) -> re.Pattern[str]:
    if len(secret) >= _UNMISTAKABLE:
        return re.compile(re.escape(secret))
    return re.compile(rf"(?<![\w./-]){re.escape(secret)}(?![\w./-])")


def _forms(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogateescape")
    forms = {value, quote(raw), quote_plus(raw), json.dumps(value)[1:-1], repr(value)[1:-1]}
    return {*forms, base64.b64encode(raw).decode("ascii").rstrip("=")}
