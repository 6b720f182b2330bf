"""The shape that a skill bank's files must have: whoever writes one reads what is wrong and in which file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tao_run.errors import UsageError


class Shape(BaseModel):
    """Only what is read is looked at; a key may be absent, null, or hold more than is known."""

    model_config = ConfigDict(extra="ignore")


class _Action(Shape):
    command: str
    mode: str | None = None
    config_format: str | None = None
    inputs: dict[str, dict[str, Any] | None] | list[str] | None = None
    outputs: dict[str, dict[str, Any] | None] | list[str] | None = None
    upload_excludes: list[str] | None = None


class _BackendSelection(Shape):
    rules: list[dict[str, Any]] | None = None
    defaults: dict[str, str] | None = None


class SkillInfo(Shape):
    """`skill_info.yaml` of a model, or of its deploy profile."""

    network_arch: str | None = None
    aliases: list[str] | None = None
    huggingface_model_ids: list[str] | None = None
    required_credentials: list[Any] | None = None
    conditional_credentials: dict[str, Any] | None = None
    spec_shorthand_keys: dict[str, Any] | None = None
    spec_templates: dict[str, str | dict[str, str | None] | None] | None = None
    backend_selection: _BackendSelection | None = None
    backend_contracts: dict[str, Any] | None = None
    actions: dict[str, _Action] | None = None


class TrainSchema(Shape):
    """A train schema, as far as AutoML's parameters go."""

    automl_default_parameters: list[str] | None = None
    automl_disabled_parameters: list[str] | None = None


class _Failures(Shape):
    failures: dict[str, Any] | None = None


class SchemasManifest(Shape):
    """`schemas.manifest.json`: which schemas could not be made."""

    models: dict[str, _Failures | None] = {}


class _Supported(TrainSchema):
    model: str


class AutomlSupport(Shape):
    """`automl_support.json`: the models that AutoML can train."""

    supported: list[_Supported] = []


class _Named(Shape):
    name: str


class _Platform(_Named):
    required_credentials: list[_Named] = []
    optional_credentials: list[_Named] = []


class PlatformManifest(Shape):
    """`platforms.manifest.json`."""

    credential_definitions: dict[str, dict[str, Any]] = {}
    platforms: list[_Platform] = []


def require(kind: type[Shape], data: Mapping[str, Any], path: Path) -> None:
    """Raises UsageError naming the file and the first place in it that has another shape."""
    try:
        kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"cannot use {path}: {where}: {first['msg']}", "repair the file, or use another bank"
        ) from None
