"""Builds what is run: the spec as a file, arguments appended, and the known names filled into the command."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, Dict, List, Mapping, Optional

from . import keys, template
from .errors import PlanError
from .formats import write_spec
from .inputs import REMOVE
from .plan import Plan


class Data:
    """The spec or the arguments of a plan, by declared keys. Changes stay here: the plan keeps what was asked."""

    def __init__(self, plan: Plan) -> None:
        self._nested = plan.mode == "config" or "config_path" in template.names_in(plan.command)
        given = plan.spec if plan.mode == "config" else plan.args
        self.value: Dict[str, Any] = json.loads(json.dumps(given)) if _plain(given) else _copied(given or {})
        self._used = template.names_in(plan.command) | {
            name for text in template.texts_in(self.value) for name in template.names_in(text)
        }
        self._mode = plan.mode
        if plan.mode == "args" and self._nested:
            self.value = _nested(self.value)

    @property
    def has_spec(self) -> bool:
        """Whether a spec file is written."""
        return self._nested and self._mode != "passthrough"

    def read(self, key: str) -> Any:
        """The value at a declared key, or None."""
        if self.has_spec:
            found = keys.get(self.value, key)
            return found if found is not None or "-" not in key else keys.get(self.value, key.replace("-", "_"))
        return self.value.get(self._argument(key))

    def write(self, key: str, value: Any) -> None:
        """Set or remove the value at a declared key. In a command without data, only `{key}` means it."""
        if self._mode == "passthrough" or (self._mode == "args" and self._only_a_name(key)):
            return
        if value is REMOVE:
            self._remove(key)
        elif self.has_spec:
            keys.put(self.value, key, value)
        else:
            self.value[self._argument(key)] = value

    def _only_a_name(self, key: str) -> bool:
        """Whether other arguments or the command refer to the key by `{key}`, and no argument has its name."""
        return self.read(key) is None and bool({key, key.replace("-", "_")} & self._used)

    def _remove(self, key: str) -> None:
        if self.has_spec:
            keys.remove(self.value, key)
        else:
            self.value.pop(self._argument(key), None)

    def _argument(self, key: str) -> str:
        variants = (key, key.replace("-", "_"), key.replace("_", "-"))
        return next((name for name in variants if name in self.value), key)


def _plain(data: Any) -> bool:
    """Whether JSON holds the data as it is."""
    return data is not None and json.loads(json.dumps(data)) == data


def _copied(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    return [_copied(value) for value in data] if isinstance(data, list) else data


def _nested(flat: Mapping[str, Any]) -> Dict[str, Any]:
    """Arguments with dotted names as the spec they stand for, where the command takes a spec file."""
    data: Dict[str, Any] = {}
    for key, value in flat.items():
        keys.put(data, key, value)
    return data


def command_text(plan: Plan, data: Data, names: Mapping[str, str]) -> str:
    """The bash text that is run."""
    text = template.fill_bash(plan.command, names)
    words: List[str] = []
    if plan.mode == "args" and not data.has_spec:
        words = argument_words(template.fill_data(data.value, names))
    words += [template.fill(flag, names) for flag in plan.flags]
    return " ".join([text.rstrip(), *map(shlex.quote, words)]) if words else text


def argument_words(args: Mapping[str, Any]) -> List[str]:
    """`--key value` for each argument: true and false in small letters, lists and mappings as JSON, null left out."""
    words: List[str] = []
    for key, value in args.items():
        if value is None:
            continue
        option = key if key.startswith("-") else f"--{key}"
        words += [option, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]
    return words


def write_config(plan: Plan, data: Data, names: Mapping[str, str], folder: str) -> Optional[str]:
    """Write the spec file; returns its path, or None if the plan has no spec. Raises PlanError."""
    if not data.has_spec:
        return None
    path = os.path.join(folder, f"spec.{plan.config_format}")
    text = write_spec(template.fill_data(data.value, names), plan.config_format)
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise PlanError(f"cannot write the spec to {path}: {error.strerror}", "check space and rights") from None
    return path
