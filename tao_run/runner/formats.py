"""Writes a spec as YAML, JSON or TOML with the standard library alone."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Iterator, List

from .errors import PlanError

# What YAML (1.1 and 1.2) does not print as it is; the rest of Unicode stays readable.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def write_spec(spec: Any, config_format: str) -> str:
    """`spec` as text in `config_format` (yaml, json or toml). Raises PlanError for what it cannot hold."""
    if config_format == "json":
        try:
            return json.dumps(spec, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        except ValueError:
            raise PlanError("JSON has no NaN and no infinity", "use config_format yaml") from None
    if config_format == "toml":
        return "\n".join(_toml_table(spec, [])).strip("\n") + "\n"
    return "\n".join(_yaml(spec, 0)) + "\n"


def _string(text: str) -> str:
    """A double-quoted string as YAML, JSON and TOML all read it."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group(0)):04x}", json.dumps(text, ensure_ascii=False))


def _number(value: float) -> str:
    """A float that YAML 1.1 readers, too, take for one: `1.0e-05`, never `1e-05`."""
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else text


def _yaml(value: Any, indent: int) -> Iterator[str]:
    pad = "  " * indent
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _yaml_entry(f"{pad}{_yaml_scalar(key)}:", inner, indent)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _yaml_entry(f"{pad}-", inner, indent)
    else:
        yield pad + _yaml_scalar(value)


def _yaml_entry(head: str, value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, (dict, list)) and value:
        yield head
        yield from _yaml(value, indent + 1)
    else:
        yield f"{head} {_yaml_scalar(value)}"


def _yaml_scalar(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        if math.isnan(value):
            return ".nan"
        if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        return _number(value)
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    return json.dumps(value)


def _toml_table(table: Any, path: List[str]) -> Iterator[str]:
    """Plain values first, then the tables below them, as TOML demands."""
    if not isinstance(table, dict):
        raise PlanError("TOML holds a table of keys at its top, not a " + type(table).__name__)
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and (plain or not table):
        yield f"[{'.'.join(map(_toml_key, path))}]"
    for key, value in plain.items():
        yield f"{_toml_key(key)} = {_toml_value(value, [*path, str(key)])}"
    if plain:
        yield ""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _toml_table(value, [*path, str(key)])


def _toml_key(key: Any) -> str:
    return str(key) if _BARE_KEY.fullmatch(str(key)) else _toml_string(str(key))


def _toml_string(text: str) -> str:
    return _string(text).replace("\\/", "/")


def _toml_value(value: Any, path: List[str]) -> str:
    if value is None:
        raise PlanError(f"TOML has no null: remove {'.'.join(path)} from the spec, or use config_format yaml")
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item, path) for item in value) + "]"
    if isinstance(value, dict):
        pairs = (f"{_toml_key(key)} = {_toml_value(item, [*path, str(key)])}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    return json.dumps(value)
