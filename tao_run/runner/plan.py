"""The plan that travels with the runner: what to stage, run and deliver. Plain JSON, no secret in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from .errors import PlanError

VERSION = 1
_MAP = "\0map"  # stands for a mapping whose keys are not all text, which JSON cannot hold


@dataclass(frozen=True)
class Selective:
    """Fetch only the files that an annotation file names under `keys`."""

    annotation: str
    keys: Tuple[str, ...]
    format: Optional[str] = None


@dataclass(frozen=True)
class Input:
    """One declared input. `key` is a spec key, an argument's name or a path in the container.

    Without `uri` the spec or the arguments hold it.
    """

    key: str
    uri: Any = None
    type: Optional[str] = None
    optional: bool = False
    selective: Optional[Selective] = None
    extract_to_parent: bool = False
    container_path: Optional[str] = None

    @property
    def is_path(self) -> bool:
        """Whether the key itself says where the input has to be in the container."""
        return self.key.startswith(("/", "./", "../"))

    @property
    def place(self) -> Optional[str]:
        """Where the command wants the input, if it does not take it where it is."""
        return self.key if self.is_path else self.container_path


@dataclass(frozen=True)
class Output:
    """One declared output. `key` as for inputs; `uri` is where it goes, if not under the job's results."""

    key: str
    uri: Optional[str] = None
    type: Optional[str] = None

    @property
    def is_path(self) -> bool:
        """Whether the key itself is where the command writes."""
        return self.key.startswith(("/", "./", "../"))


@dataclass(frozen=True)
class Plan:
    """All that the runner has to do. `upload_interval` is in seconds, `results_uri` is the s3:// prefix of the results.

    `refresh` (seconds since the epoch): staged files that are older are fetched again.
    """

    mode: str
    command: str
    spec: Optional[Dict[str, Any]] = None
    args: Optional[Dict[str, Any]] = None
    flags: Tuple[str, ...] = ()
    config_format: str = "yaml"
    inputs: Tuple[Input, ...] = ()
    outputs: Tuple[Output, ...] = ()
    upload_excludes: Tuple[str, ...] = ()
    upload_interval: Optional[float] = None
    mount: Optional[str] = None
    results_uri: Optional[str] = None
    results_local_only: bool = False
    refresh: Optional[float] = None
    job_id: Optional[str] = None
    split_id: Optional[str] = None


def encode(data: Any) -> Any:
    """Nested data as JSON can hold it: mappings with keys other than text become marked lists of pairs."""
    if isinstance(data, dict):
        if all(isinstance(key, str) for key in data) and _MAP not in data:
            return {key: encode(value) for key, value in data.items()}
        return {_MAP: [[key, encode(value)] for key, value in data.items()]}
    return [encode(value) for value in data] if isinstance(data, (list, tuple)) else data


def decode(data: Any) -> Any:
    """The inverse of `encode`."""
    if isinstance(data, dict):
        if set(data) == {_MAP}:
            return {key: decode(value) for key, value in data[_MAP]}
        return {key: decode(value) for key, value in data.items()}
    return [decode(value) for value in data] if isinstance(data, list) else data


def load_plan(text: str) -> Plan:
    """A plan from its JSON. Raises PlanError if another version of the host wrote it."""
    data = json.loads(text)
    version = data.pop("version", None)
    if version != VERSION:
        raise PlanError(f"this plan is of version {version}, the runner reads {VERSION}", "submit the job again")
    for name in ("spec", "args"):
        data[name] = decode(data.get(name))
    data["inputs"] = tuple(_input(item) for item in data.get("inputs", ()))
    data["outputs"] = tuple(Output(**item) for item in data.get("outputs", ()))
    for name in ("flags", "upload_excludes"):
        data[name] = _texts(data.get(name))
    return Plan(**data)


def _texts(items: Optional[List[str]]) -> Tuple[str, ...]:
    return tuple(items or ())


def _input(item: Dict[str, Any]) -> Input:
    selective = item.pop("selective", None)
    if selective:
        keys = _texts(selective["keys"])
        selective = Selective(selective["annotation"], keys, selective.get("format"))
    return Input(selective=selective, **item)
