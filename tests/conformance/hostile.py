"""Strings that break naive quoting: they must arrive untouched."""

from __future__ import annotations

ARGUMENTS = [
    "plain",
    "two words",
    "",
    "it's",
    'a "quoted" one',
    "$HOME ${PATH} $(id) `id`",
    "line one\nline two",
    "tab\there",
    "back\\slash \\n",
    "{config_path} {other} {}",
    "100% %s %%",
    "a,b=c;d&e|f>g<h",
    "* ? [a-z] ~",
    "--option=value",
    "-n",
    "ünïcödé 日本 🚀",
    "!history #comment",
]
VALUES = {
    "PLAIN": "value",
    "SPACES": "  two  words  ",
    "QUOTES": 'it\'s a "quote"',
    "DOLLAR": "$HOME ${PATH} $(id) `id`",
    "LINES": "one\ntwo\n\nfour",
    "COMMAS": "a,b,c=d;e",
    "PERCENT": "100%s %%",
    "BACKSLASH": "a\\b\\n\\",
    "UNICODE": "ünïcödé 日本 🚀",
    "EQUALS": "a=b==",
    "BRACES": "{config_path} {x}",
}


def hexed(text: str) -> str:
    """How `od`-like output of a string looks in these tests."""
    return text.encode().hex()
