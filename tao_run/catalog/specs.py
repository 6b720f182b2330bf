"""Merging specs, and keys in them that a container would never read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `over` on top: mappings are merged at every level, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        mine = merged.get(key)
        merged[key] = merge(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
    return merged


def without_nulls(spec: dict[str, Any]) -> dict[str, Any]:
    """`spec` without keys whose value is null: TOML has no null, and a missing key means the same there."""
    return {
        key: without_nulls(value) if isinstance(value, dict) else value
        for key, value in spec.items()
        if value is not None
    }


def dotted_keys(spec: Mapping[str, Any]) -> list[str]:
    """Top-level keys that look like paths: a spec is nested, and such a key would never be read."""
    return [str(key) for key in spec if "." in str(key).strip(".")]
