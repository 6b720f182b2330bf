"""Command-line values of `submit` as the plain data of a job file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tao_run.credentials import parse_env
from tao_run.errors import UsageError
from tao_run.jobs.jobfile import read_spec

_AS_THEY_ARE = (
    "platform",
    "name",
    "image",
    "nodes",
    "gpus",
    "model",
    "action",
    "results",
    "resume",
    "max_time",
    "retries",
)
_MOST_SPLITS = 10_000
_SPLIT = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?")


def command_line_data(given: Mapping[str, Any], command: list[str] | None) -> dict[str, Any]:
    """What was said on the command line, and only that."""
    data = {key: given[key] for key in _AS_THEY_ARE if given.get(key) is not None}
    data |= {key: value for key, value in _maps(given).items() if value}
    said = _command(given["command"], command)
    if said is not None:
        data["command"] = said
    if given["spec"] is not None:
        data["spec"] = read_spec(given["spec"])
    if given["automl_policy"] is not None:
        data["automl_policy"] = given["automl_policy"]
    if given["refresh"]:
        data["refresh"] = True
    if given["mount"] is not None or given["no_mount"]:
        data["mount"] = False if given["no_mount"] else given["mount"]
    return data


def _command(text: str | None, arguments: list[str] | None) -> str | list[str] | None:
    if arguments is not None and not arguments:
        raise UsageError("there is no command after `--`")
    if text is not None and arguments is not None:
        raise UsageError("both --command and arguments after `--`", "give one of them")
    return text if arguments is None else arguments


def _maps(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "env": _environment(given["env"] or [], given["env_file"]),
        "secrets": {name: source or name for name, source in _pairs(given["secret"] or [], "--secret", needed=False)},
        "labels": dict(_pairs(given["label"] or [], "--label")),
        "inputs": dict(_pairs(given["input_"] or [], "--input")),
        "outputs": {key: uri or None for key, uri in _pairs(given["output_"] or [], "--output", needed=False)},
    }


def _pairs(items: Sequence[str], option: str, needed: bool = True) -> list[tuple[str, str]]:
    found = []
    for item in items:
        key, separator, value = item.partition("=")
        if not key or (needed and not separator):
            raise UsageError(f"{option} {item!r}: no value", f"write {option} NAME=VALUE")
        found.append((key, value))
    return found


def _environment(items: Sequence[str], file: Path | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if file is not None:
        try:
            values, warnings = parse_env(file.read_text(encoding="utf-8-sig"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(f"cannot read {file}: {reason}") from None
        if warnings:
            raise UsageError(warnings[0].removesuffix(" and is ignored"), "repair the line, or remove it")
        found |= values
    for item in items:
        key, separator, value = item.partition("=")
        if not separator and key not in os.environ:
            raise UsageError(f"--env {key}: not set here", f"write --env {key}=VALUE")
        found[key] = value if separator else os.environ[key]
    return found


def settings_of(items: Sequence[str]) -> dict[str, Any]:
    """`--set key=value` pairs; a value is read as YAML, so numbers, lists and true/false are what they look like."""
    from tao_run.yamltext import load_value

    return {key: load_value(text) for key, text in _pairs(items, "--set")}


def parse_splits(text: str | None, count: int | None) -> tuple[str, ...] | None:
    """Split ids of `0-7`, `0,3,5`, or of a count; None for a single job."""
    if text is not None and count is not None:
        raise UsageError("both --split and --splits", "give one of them")
    if text is None:
        return None if count is None else tuple(str(number) for number in range(count))
    found: list[str] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _SPLIT.fullmatch(part.strip()) or (dash and int(last) < int(first)):
            raise UsageError(f"--split {text!r} is not a list of split ids", "write 0-7, or 0,3,5")
        wanted = range(int(first), int(last or first) + 1)
        if len(found) + len(wanted) > _MOST_SPLITS:
            raise UsageError(f"--split {text!r} asks for more than {_MOST_SPLITS} jobs")
        found += map(str, wanted)
    return tuple(dict.fromkeys(found))
