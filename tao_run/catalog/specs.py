"""Specs are nested mappings; people and metadata name their entries by paths such as `dataset.sources[0].dir`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import yaml

from tao_run.catalog.yamltext import load_yaml
from tao_run.errors import UsageError

_PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_PATH = re.compile(r"^[^.\[\]]+(?:\[\d+\])*(?:\.[^.\[\]]+(?:\[\d+\])*)*$")
MISSING = object()
# Hydra's and OmegaConf's mark of a value that the user has to give.
MANDATORY = "???"


def split_path(path: str) -> list[str | int]:
    """`a.b[0].c` -> ["a", "b", 0, "c"]. Raises UsageError for anything else."""
    if not _PATH.match(path):
        raise UsageError(f"{path!r} is not a path into a spec", "write it like train.num_epochs or data.sources[0].dir")
    return [name or int(index) for name, index in _PART.findall(path)]


def get(spec: Any, path: str) -> Any:
    """The value at a path, or MISSING."""
    for part in split_path(path):
        if isinstance(part, int):
            if not isinstance(spec, list) or part >= len(spec):
                return MISSING
        elif not isinstance(spec, Mapping) or part not in spec:
            return MISSING
        spec = spec[part]
    return spec


def put(spec: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path, making mappings and list entries on the way.

    Raises:
        UsageError: the path goes through a value that is neither, or skips list entries.
    """
    parts = split_path(path)
    here: Any = spec
    for part, following in pairwise(parts):
        inner = _child(here, part, path)
        if inner is MISSING or inner is None or inner == MANDATORY or inner == "":
            inner = [] if isinstance(following, int) else {}
            _assign(here, part, inner, path)
        here = inner
    _assign(here, parts[-1], value, path)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `over` on top: mappings are merged at every level, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        mine = merged.get(key)
        merged[key] = merge(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
    return merged


def parse_setting(text: str) -> tuple[str, Any]:
    """`train.lr=1e-4` -> path and value; the value is read as YAML, so lists, numbers and null work.

    Raises:
        UsageError: no `=`, a bad path, or a value that is not YAML.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set {text}: there is no '='", "write --set path.in.spec=value")
    split_path(path.strip())
    try:
        return path.strip(), load_yaml(value)
    except yaml.YAMLError:
        raise UsageError(f"--set {text}: the value is not YAML", "quote it: --set path='\"text\"'") from None


def dotted_keys(spec: Mapping[str, Any]) -> list[str]:
    """Top-level keys that look like paths: a spec is nested, and such a key would never be read."""
    return [str(key) for key in spec if "." in str(key) and _PATH.match(str(key))]


def _child(here: Any, part: str | int, path: str) -> Any:
    if isinstance(part, int):
        if not isinstance(here, list):
            raise UsageError(f"{path}: there is no list at [{part}]")
        return here[part] if part < len(here) else MISSING
    if not isinstance(here, dict):
        raise UsageError(f"{path}: {part!r} is below a value that is not a mapping")
    return here.get(part, MISSING)


def _assign(here: Any, part: str | int, value: Any, path: str) -> None:
    _child(here, part, path)
    if isinstance(part, int) and part == len(here):
        here.append(value)
    elif isinstance(part, int) and part > len(here):
        raise UsageError(f"{path}: the list has {len(here)} entries, so [{part}] cannot be set")
    else:
        here[part] = value
