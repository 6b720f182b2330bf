"""Job files: YAML read strictly, `spec` from a file, `set` applied, command-line values laid over it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from tao_run.errors import UsageError
from tao_run.jobs.request import Count, JobRequest, parse_model, parse_request
from tao_run.jobs.speckeys import set_value

DEFAULT_FILE = "tao-run.yaml"


class JobFile(JobRequest):
    """A request as a file says it: `spec` may name another file, `set` changes single keys of it."""

    spec: str | dict[str, Any] | None = Field(None, description="the spec, or the path of a YAML/JSON file with it")  # type: ignore[assignment]
    set: dict[str, Any] = Field(default_factory=dict, description="spec key (a.b[0].c) -> value")
    splits: Count | None = Field(None, ge=1, le=10000, description="submit this many jobs, split_id 0 to N-1")


def read_job_file(path: Path) -> dict[str, Any]:
    """The content of a job file, as plain data. Raises UsageError with the line of a YAML fault."""
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise UsageError(f"{path}: a job file holds keys and values, like `command: ...`")
    parse_model(JobFile, data, str(path))
    spec = data.get("spec")
    if isinstance(spec, str):
        data["spec"] = read_spec(path.parent / spec)
    return data


def read_spec(path: Path) -> dict[str, Any]:
    """A spec from a YAML, JSON or TOML file."""
    data = _read_toml(path) if path.suffix == ".toml" else read_yaml(path)
    if not isinstance(data, dict):
        raise UsageError(f"{path}: a spec holds nested keys and values")
    return data


def read_yaml(path: Path) -> Any:
    """The data of a YAML (or JSON) file. Keys given twice are an error: one of them would be lost silently."""
    import yaml

    from tao_run.yamltext import load_yaml

    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {path}: {reason}") from None
    try:
        return load_yaml(text, _strict_loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        text = str(getattr(error, "problem", None) or error).partition("\n")[0]
        raise UsageError(f"{path}{where}: {text}") from None


def _strict_loader() -> type[Any]:
    import yaml

    from tao_run.yamltext import Loader

    class StrictLoader(Loader):
        """A safe loader that refuses a key given twice, and reads `1e-4` as a number."""

    def mapping(loader: StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        loader.flatten_mapping(node)
        return dict(loader.construct_pairs(node, deep=True))

    StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return StrictLoader


if sys.version_info >= (3, 11):
    import tomllib

    def _read_toml(path: Path) -> Any:
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None

else:

    def _read_toml(path: Path) -> Any:
        raise UsageError(f"{path}: TOML specs need Python 3.11", "write the spec in YAML or JSON")


def to_request(data: Mapping[str, Any], source: str) -> tuple[JobRequest, int | None]:
    """A request and the number of splits, out of file and command-line data laid together."""
    whole = parse_model(JobFile, data, source)
    fields = {key: value for key, value in data.items() if key not in ("set", "splits")}
    if whole.set:
        spec = fields.get("spec") or {}
        for key, value in whole.set.items():
            spec = set_value(spec, key, value)
        fields["spec"] = spec
    return parse_request(fields, source), whole.splits


def lay_over(file: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """File values with the command line's on top: single values replace, maps are merged key by key."""
    merged = dict(file)
    for key, value in given.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping) and key != "spec":
            merged[key] = {**merged[key], **value}
        else:
            merged[key] = value
    return merged
