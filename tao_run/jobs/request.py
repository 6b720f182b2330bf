"""What the user asked for: one strict model that command line, job file and Python call all end in."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from tao_run.credentials import is_secret_name
from tao_run.errors import UsageError
from tao_run.jobs.durations import parse_duration
from tao_run.redact import holds_secret

M = TypeVar("M", bound=BaseModel)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Strict(BaseModel):
    """A model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Selective(Strict):
    """Download only what an annotation file names."""

    annotation: str
    format: Literal["json", "jsonl", "csv", "parquet"] | None = None
    keys: list[str] = Field(min_length=1)


def _plain_uri(value: Any) -> Any:
    """`lustre:///path` is how SLURM users write a path of the cluster: what jobs see is the path itself."""
    if isinstance(value, list):
        return [_plain_uri(item) for item in value]
    if isinstance(value, str) and value.startswith("lustre:///"):
        return "/" + value.removeprefix("lustre://").lstrip("/")
    return value


class InputSource(Strict):
    """Where an input comes from. In short form just the URI, or a list of URIs."""

    uri: Annotated[str | list[str], BeforeValidator(_plain_uri)]
    type: Literal["file", "folder", "list", "local_glob"] | None = None
    optional: bool = False
    selective: Selective | None = None
    extract_to_parent: bool = False
    container_path: str | None = None


class OutputTarget(Strict):
    """Where an output goes. Without a URI: under the job's results directory."""

    uri: Annotated[str | None, BeforeValidator(_plain_uri)] = None
    type: Literal["file", "folder"] | None = None


def _source(value: Any) -> Any:
    return {"uri": value} if isinstance(value, (str, list)) else value


def _target(value: Any) -> Any:
    return {"uri": value} if value is None or isinstance(value, str) else value


def _outputs(value: Any) -> Any:
    return {str(item): None for item in value} if isinstance(value, (list, tuple)) else value


def _secret_map(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        pairs = [str(item).partition("=") for item in value]
        return {name: source or name for name, _, source in pairs}
    return value


def _words(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, date):
        raise ValueError("yes, no, dates and nothing are no text: put it in quotes")
    return str(value) if isinstance(value, (int, float)) else value


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is needed")
    return value


def _said_blocks(value: Any) -> Any:
    """A block whose lines are all commented out is an empty one."""
    if not isinstance(value, Mapping):
        return value
    return {key: {} if block is None else block for key, block in value.items()}


def _seconds(value: Any) -> Any:
    if value is None:
        return None
    try:
        return parse_duration(value)
    except UsageError as error:
        raise ValueError(f"{error.message}: {error.hint}" if error.hint else error.message) from None


Count = Annotated[int, BeforeValidator(_no_truth)]
Word = Annotated[str, BeforeValidator(_words)]
Input = Annotated[InputSource, BeforeValidator(_source)]
Output = Annotated[OutputTarget, BeforeValidator(_target)]
Seconds = Annotated[int, BeforeValidator(_seconds)]


class JobRequest(Strict):
    """A job as the user describes it, platform-neutral, plus one block of options per platform.

    Durations are in seconds once parsed. `secrets` maps a variable of the container to the name of a
    credential; values never enter a request.
    """

    platform: str | None = Field(None, description="where it runs: local, docker, kubernetes, slurm, lepton, brev")
    name: str | None = Field(None, description="a name for people; the job's own name adds its id", max_length=100)
    image: str | None = Field(None, description="container image, or a key of versions.yaml")
    command: str | list[Word] | None = Field(None, description="bash text, or a list of exact arguments")
    model: str | None = Field(None, description="a TAO model; with `action`, the catalog fills in the rest")
    action: str | None = Field(None, description="what the model does: train, evaluate, export, ...")
    nodes: Count = Field(1, ge=1, le=4096, description="how many nodes")
    gpus: Count | None = Field(None, ge=0, le=1024, description="GPUs per node")
    env: dict[str, Word] = Field(default_factory=dict, description="plain variables of the container")
    secrets: Annotated[dict[str, str], BeforeValidator(_secret_map)] = Field(
        default_factory=dict, description="credentials by name: NAME, or CONTAINER_NAME=NAME"
    )
    spec: dict[str, Any] | None = Field(None, description="the action's spec, nested, written to {config_path}")
    config_format: Literal["yaml", "json", "toml"] = Field("yaml", description="how the spec is written")
    args: dict[str, Any] | None = Field(None, description="arguments appended as --key value")
    flags: list[str] = Field(default_factory=list, description="flags appended as they are")
    inputs: dict[str, Input] = Field(default_factory=dict, description="spec key or container path -> URI")
    outputs: Annotated[dict[str, Output], BeforeValidator(_outputs)] = Field(
        default_factory=dict, description="spec key or container path -> URI, or nothing"
    )
    upload_excludes: list[str] = Field(default_factory=list, description="patterns that are not uploaded")
    upload_interval: Seconds | None = Field(None, description="upload new and changed outputs this often")
    mount: str | Literal[False] | None = Field(None, description="shared mount; false switches it off")
    results: Annotated[str | None, BeforeValidator(_plain_uri)] = Field(
        None, description="root of the results: s3:// URI or directory"
    )
    max_time: Seconds | None = Field(None, description="time limit")
    retries: Count = Field(0, ge=0, le=100, description="resubmit this often after infrastructure failures")
    labels: dict[str, Word] = Field(default_factory=dict)
    split_id: Word | None = Field(None, description="which member of a group of parallel jobs this is")
    resume: str | None = Field(None, description="continue from the checkpoints of this job")
    refresh: bool = Field(False, description="do not trust cached inputs on the mount")
    automl_policy: Literal["on", "off"] | None = None
    options: Annotated[dict[str, dict[str, Any]], BeforeValidator(_said_blocks)] = Field(
        default_factory=dict, description="platform -> its own options"
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_is_not_said(cls, data: Any) -> Any:
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, Mapping) else data

    @field_validator("env")
    @classmethod
    def _env_names(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            _check_env_name(name)
        return env

    @field_validator("secrets")
    @classmethod
    def _secret_names(cls, secrets: dict[str, str]) -> dict[str, str]:
        for name, source in secrets.items():
            _check_env_name(name)
            _check_env_name(source)
        return secrets

    @field_validator("command")
    @classmethod
    def _command_says_something(cls, command: str | list[str] | None) -> str | list[str] | None:
        if command is not None and not command:
            raise ValueError("the command is empty")
        return command

    @model_validator(mode="after")
    def _one_mode(self) -> JobRequest:
        if self.spec is not None and self.args is not None:
            raise ValueError("give a spec or args, not both")
        if self.action and not self.model:
            raise ValueError("an action needs a model")
        return self

    def gpus_or(self, usual: int) -> int:
        """GPUs per node, `usual` if nothing was said of them; 0 is something."""
        return usual if self.gpus is None else self.gpus

    def for_platform(self) -> dict[str, Any]:
        """The option block of the chosen platform."""
        return dict(self.options.get(self.platform or "", {}))


def _check_env_name(name: str) -> None:
    if not _ENV_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a variable name (letters, digits, _)")


def parse_request(data: Mapping[str, Any], source: str = "the job") -> JobRequest:
    """A request from plain data. Raises UsageError: one line per fault, unknown keys with the nearest name."""
    _refuse_unsendable(data, source)
    request = parse_model(JobRequest, data, source)
    refuse_secret_values(request, source)
    return request


def _refuse_unsendable(data: Mapping[str, Any], source: str) -> None:
    """Raises UsageError for text that no backend takes: NUL characters, and bytes that are no UTF-8."""
    for place, text in _texts(data, ""):
        if "\0" in text:
            raise UsageError(f"{source}: {place} holds a NUL character", "leave it out")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(f"{source}: {place} is not UTF-8 text: {text!r}", "write it as UTF-8")


def refuse_secret_values(request: JobRequest, source: str) -> None:
    """Raises UsageError if a secret's value is part of the request: it would be recorded and shown."""
    for name, value in request.env.items():
        if is_secret_name(name) and value:
            raise UsageError(f"{source}: env: {name} is a secret", f"pass it by name: --secret {name}")
    for place, text in _texts(to_record(request), ""):
        if holds_secret(text):
            raise UsageError(
                f"{source}: {place} holds the value of a credential",
                "pass credentials by name: --secret NAME, and $NAME in the command",
            )


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _texts(item, f"{place}[{number}]")


def parse_model(model: type[M], data: Mapping[str, Any], source: str) -> M:
    """An instance of a strict pydantic `model`. Raises UsageError in one clear line."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        found = [(_place(item, data), item) for item in error.errors(include_url=False, include_input=False)]
        exact = [(where, dict(item)) for where, item in found if not any(_inside(other, where) for other, _ in found)]
        faults = dict.fromkeys(_fault(model, where, item) for where, item in exact)
        raise UsageError(f"{source}: " + "; ".join(faults)) from None


def _place(item: Mapping[str, Any], data: Any) -> str:
    """Where in the data a fault is. pydantic's steps also name types of a union, which say nothing to a user."""
    kept = []
    for step in item["loc"]:
        inside = (isinstance(data, Mapping) and step in data) or (
            isinstance(data, (list, tuple)) and isinstance(step, int)
        )
        if inside:
            data = data[step]
        if inside or (item["type"] == "missing" and step is item["loc"][-1]):
            kept.append(str(step))
    return ".".join(kept)


def _inside(place: str, other: str) -> bool:
    return bool(other) and place.startswith(other + ".")


def _fault(model: type[Any], where: str, item: Mapping[str, Any]) -> str:
    if item["type"] == "extra_forbidden":
        key = str(item["loc"][-1])
        return f"unknown key {where!r}{_suggestion(key, _names(model, item['loc'][:-1]))}"
    text = str(item["msg"]).removeprefix("Value error, ")
    return f"{where}: {text}" if where else text


_NESTED: dict[str, type[BaseModel]] = {"inputs": InputSource, "outputs": OutputTarget, "selective": Selective}


def _names(model: type[Any], path: tuple[Any, ...]) -> list[str]:
    for part in reversed(path):
        if part in _NESTED:
            return list(_NESTED[part].model_fields)
    return list(model.model_fields)


def _suggestion(key: str, names: list[str]) -> str:
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else f" (known: {', '.join(names)})"


def to_record(request: JobRequest) -> dict[str, Any]:
    """The request as plain data for the record: only what was set."""
    return request.model_dump(mode="json", exclude_defaults=True)
