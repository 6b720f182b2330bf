"""versions.yaml: image and wheel pins by dotted key, and the pip line for what a platform needs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tao_run.errors import UsageError
from tao_run.yamltext import load_yaml


@cache
def own_versions() -> Mapping[str, Any]:
    """tao-run's versions.yaml: the installed copy, or the one at the top of a checkout."""
    packaged = Path(__file__).parent / "versions.yaml"
    if not packaged.is_file():
        packaged = Path(__file__).parents[2] / "versions.yaml"
    data: Mapping[str, Any] = load_yaml(packaged.read_text("utf-8"))
    return data


def lookup(versions: Mapping[str, Any], key: str) -> str | None:
    """The string under a dotted key, or None."""
    value: Any = versions
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value if isinstance(value, str) else None


def keys_of(versions: Mapping[str, Any], prefix: str = "") -> list[str]:
    """All dotted keys that lead to a string, in file order."""
    found: list[str] = []
    for name, value in versions.items():
        path = f"{prefix}{name}"
        found.extend(keys_of(value, f"{path}.") if isinstance(value, Mapping) else [path])
    return found


def resolve_key(versions: Mapping[str, Any], key: str) -> str:
    """The pin under a dotted key such as `wheels.tao_sdk_lepton`.

    Raises:
        UsageError: there is no such key, or it names a group; the keys that exist are listed.
    """
    value = lookup(versions, key)
    if value is None:
        group, choices = key.split(".")[0], keys_of(versions)
        near = [choice for choice in choices if choice.startswith(f"{group}.")] or choices
        raise UsageError(f"versions.yaml has no key {key!r}", f"choose one of: {', '.join(near)}")
    return value


def pip_install(*packages: str) -> str:
    """The command that installs the pinned form of `packages` (names under `packages.` in versions.yaml)."""
    pins = [resolve_key(own_versions(), f"packages.{name}") for name in packages]
    return f"pip install {' '.join(shlex.quote(pin) for pin in pins)}"
