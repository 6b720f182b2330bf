"""Fills `{config_path}` and other known names into a command; every other brace stays as it is."""

from __future__ import annotations

import re
import shlex
from typing import Any, Iterator, Mapping, Set, Tuple

# Not `${name}`: that is a variable of bash, or an interpolation of OmegaConf in a spec.
_NAME = re.compile(r"(?<!\$)\{([A-Za-z_/][A-Za-z0-9_./\-\[\]]*)\}")


def names_in(text: str) -> Set[str]:
    """All names in braces."""
    return set(_NAME.findall(text))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace known names in a plain text."""
    return _NAME.sub(lambda match: values.get(match.group(1), match.group(0)), text)


def fill_data(data: Any, values: Mapping[str, str]) -> Any:
    """Replace known names in all strings of nested data."""
    if isinstance(data, str):
        return fill(data, values)
    if isinstance(data, dict):
        return {key: fill_data(value, values) for key, value in data.items()}
    if isinstance(data, list):
        return [fill_data(value, values) for value in data]
    return data


def texts_in(data: Any) -> Iterator[str]:
    """All strings of nested data, without keys."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from texts_in(value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from texts_in(value)


def fill_bash(text: str, values: Mapping[str, str]) -> str:
    """Replace known names in bash text so that each value arrives as one piece, whatever characters it has.

    Outside quotes the value is quoted; inside quotes it is written so that it stays inside them.
    """
    if not names_in(text) & set(values):
        return text
    pieces = []
    done = 0
    for start, end, name, quote in _placeholders(text):
        if name in values:
            pieces += [text[done:start], _quoted(values[name], quote)]
            done = end
    return "".join([*pieces, text[done:]])


def _placeholders(text: str) -> Iterator[Tuple[int, int, str, str]]:
    """Start, end and name of each placeholder, and the quote that it stands in (`'`, `"` or nothing)."""
    quote, position = "", 0
    while position < len(text):
        character = text[position]
        if character == "\\" and quote != "'":
            position += 2
            continue
        if character in "'\"" and quote in ("", character):
            quote = "" if quote else character
        match = _NAME.match(text, position) if character == "{" else None
        if match:
            yield position, match.end(), match.group(1), quote
        position = match.end() if match else position + 1


def _quoted(value: str, quote: str) -> str:
    if shlex.quote(value) == value and value:
        return value
    if quote == "'":
        return value.replace("'", "'\\''")
    if quote == '"':
        return re.sub(r'([\\"$`])', r"\\\1", value)
    return shlex.quote(value)
