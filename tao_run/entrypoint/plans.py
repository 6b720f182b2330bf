"""Checks what a job asks of the runner and writes it down as the runner's plan."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tao_run.entrypoint.values import plain
from tao_run.errors import UsageError
from tao_run.runner import keys
from tao_run.runner.errors import PlanError
from tao_run.runner.formats import write_spec
from tao_run.runner.plan import VERSION, encode

_FORMATS = ("yaml", "json", "toml")
_INPUT_FIELDS = ("uri", "type", "optional", "selective", "extract_to_parent", "container_path")
_OUTPUT_FIELDS = ("uri", "type")


def make_plan(
    *,
    command: str | Sequence[str],
    spec: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    flags: Any = None,
    inputs: Mapping[str, Any] | None = None,
    outputs: Any = None,
    config_format: str = "yaml",
    upload_excludes: Sequence[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The plan as plain data. The mode follows from what is given: a spec, arguments, or neither.

    `more` is taken as it is (mount, job_id, ...); what is None is left out.
    Raises UsageError: spec and args at once, flat dotted keys, values that the format cannot hold.
    """
    if spec is not None and args is not None:
        raise UsageError(
            "give a spec or args, not both", "a spec goes to {config_path}, args are appended to the command"
        )
    if config_format not in _FORMATS:
        raise UsageError(f"config_format {config_format!r} is unknown", f"use {', '.join(_FORMATS)}")
    mode = "config" if spec is not None else "args" if args is not None else "passthrough"
    plan = {
        "version": VERSION,
        "mode": mode,
        "command": command_text(command),
        "spec": None if spec is None else encode(_checked_spec(plain(spec, "spec"), config_format)),
        "args": None if args is None else encode(plain(args, "args")),
        "flags": flag_words(flags),
        "config_format": config_format,
        "inputs": [_input(key, value) for key, value in (inputs or {}).items()],
        "outputs": [_output(key, value) for key, value in _output_items(outputs)],
        "upload_excludes": list(upload_excludes or ()),
        **more,
    }
    return {name: value for name, value in plan.items() if value is not None}


def command_text(command: str | Sequence[str]) -> str:
    """A command as bash text: a list of words arrives exactly as it is."""
    if not command:
        raise UsageError("there is no command", "give one after --, or a model and an action")
    return command if isinstance(command, str) else shlex.join(str(word) for word in command)


def flag_words(flags: Any) -> list[str]:
    """Flags as words: a list as it is, of a mapping those that are true, with dashes."""
    if isinstance(flags, Mapping):
        return [name if name.startswith("-") else f"--{name}" for name, on in flags.items() if on]
    return [str(flag) for flag in ([flags] if isinstance(flags, str) else flags or ())]


def _checked_spec(spec: dict[str, Any], config_format: str) -> dict[str, Any]:
    flat = [key for key in keys.dotted_keys(spec) if key in spec]
    if flat:
        nested = json.dumps(keys.nested_form(flat[0], spec[flat[0]]), default=str)
        raise UsageError(f"the spec has the flat key {flat[0]!r}; a spec is nested", f"write {nested}")
    try:
        write_spec(spec, config_format)
    except PlanError as error:
        raise UsageError(error.message, error.hint) from None
    return spec


def _is_path(key: str) -> bool:
    return key.startswith(("/", "./", "../"))


def _input(key: str, value: Any) -> dict[str, Any]:
    fields = _fields(value, f"input {key}", _INPUT_FIELDS)
    _check_key(key, "input")
    selective = fields.get("selective")
    if selective:
        fields["selective"] = _selective(key, selective)
    return {"key": key, **fields}


def _selective(key: str, value: Any) -> dict[str, Any]:
    fields = _fields(value, f"input {key}: selective", ("annotation", "format", "keys"))
    if not fields.get("annotation") or not fields.get("keys"):
        raise UsageError(f"input {key}: selective needs an annotation and keys")
    return fields


def _output(key: str, value: Any) -> dict[str, Any]:
    _check_key(key, "output")
    return {"key": key, **_fields(value, f"output {key}", _OUTPUT_FIELDS)}


def _output_items(outputs: Any) -> list[tuple[str, Any]]:
    if isinstance(outputs, Mapping):
        return list(outputs.items())
    return [(str(path), None) for path in outputs or ()]


def _check_key(key: str, kind: str) -> None:
    if _is_path(key):
        return
    try:
        keys.parse_key(key)
    except PlanError as error:
        raise UsageError(f"{kind} {error.message}", f"{error.hint}, or an absolute path in the container") from None


def _fields(value: Any, where: str, known: tuple[str, ...]) -> dict[str, Any]:
    """The declaration as plain data: a model, a mapping, or in short form just the URI (or URIs)."""
    if value is None:
        return {}
    if isinstance(value, (str, list, tuple)):
        return {"uri": plain(value, where)}
    data = value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else dict(value)
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]!r}", f"known: {', '.join(known)}")
    return {name: plain(item, where) for name, item in data.items() if item is not None}
