"""Text views of platforms, models and images, in the words of the skill bank's scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tao_run.catalog.facts import CredentialFact
from tao_run.catalog.reports import (
    AutomlSupport,
    ModelEntry,
    ModelList,
    PlatformDetail,
    PlatformEntry,
    PlatformList,
    Readiness,
    ResolvedImage,
)
from tao_run.cli.output import Output
from tao_run.cli.output.plain import plain
from tao_run.cli.output.views import view


@view(PlatformList)
def platform_list(result: PlatformList, output: Output) -> None:
    """One line per platform, then what to propose for watching."""
    output.line("Supported TAO execution platforms:")
    for entry in result.platforms:
        output.line(f"- {entry.name} ({entry.display_name}): {entry.description}{_aliases(entry)}{_ready(entry)}")
    output.line("Prompt defaults:")
    for key, value in result.prompt_defaults.items():
        output.line(f"- {key}: {_plain_value(value)}")


@view(PlatformDetail)
def platform_detail(result: PlatformDetail, output: Output) -> None:
    """Everything about one platform, section by section."""
    aliases = f"; aliases: {', '.join(result.aliases)}" if result.aliases else ""
    output.line(f"Platform: {result.platform} ({result.display_name}){aliases}")
    output.line(result.description)
    _section(output, "Required credentials", _credentials(result.required_credentials), empty="none")
    groups = [f"one of {', '.join(group.require_one_of)}: {group.description}" for group in result.credential_groups]
    _section(output, "Required credential groups", groups)
    _section(output, "Optional credentials/settings", _credentials(result.optional_credentials))
    _section(output, "Resource defaults", _pairs(result.resource_defaults))
    _section(output, "Storage", _pairs(result.storage))
    _section(output, "Dataset examples", result.dataset_examples)
    _section(output, "Preflight checks", result.preflight_checks)
    if result.readiness is not None:
        _section(output, "Here", _readiness_lines(result.readiness))


@view(ModelList)
def model_list(result: ModelList, output: Output) -> None:
    """One line per model."""
    output.line("TAO models:")
    for entry in result.models:
        output.line(plain(f"- {entry.model} ({entry.network_arch}): {', '.join(entry.actions)}; {_model_state(entry)}"))


@view(AutomlSupport)
def automl_support(result: AutomlSupport, output: Output) -> None:
    """Models that AutoML can train, then the others with the reason."""
    output.line("AutoML supported:")
    for entry in result.supported:
        count = len(entry.automl_default_parameters)
        output.line(plain(f"- {entry.model} ({entry.network_arch}): train schema: valid; {count} default parameters"))
    output.line("AutoML not supported:")
    for blocked in result.unsupported:
        output.line(plain(f"- {blocked.model} ({blocked.network_arch}): {blocked.reason}"))


@view(ResolvedImage)
def resolved_image(result: ResolvedImage, output: Output) -> None:
    """The image and where it comes from."""
    output.line("TAO container image resolution:")
    lines = {
        "requested model": result.requested_model,
        "model": f"{result.model} ({result.network_arch})",
        "action": result.action,
        "backend": result.backend,
        "image": result.image if result.resolved_from == "override" else "",
        "default image": result.default_image or "",
        "declared image": result.declared_image or "none",
        "source": result.source,
        "resolved from": result.resolved_from,
        "confirmation": "use this image, or give another with --image (image=<override>) before launch",
    }
    for key, value in lines.items():
        if value:
            output.line(plain(f"- {key}: {value}"))


def _aliases(entry: PlatformEntry) -> str:
    return f" aliases: {', '.join(entry.aliases)}" if entry.aliases else ""


def _ready(entry: PlatformEntry) -> str:
    if entry.readiness is None:
        return ""
    return " [ready]" if entry.readiness.ready else f" [missing: {', '.join(entry.readiness.missing)}]"


def _readiness_lines(readiness: Readiness) -> list[str]:
    missing = ", ".join(readiness.missing) or "nothing that is always required"
    return [f"set: {', '.join(readiness.present) or 'none'}", f"missing: {missing}"]


def _credentials(entries: Iterable[CredentialFact]) -> list[str]:
    lines = []
    for entry in entries:
        when = f" (only when {entry.only_when})" if entry.only_when else ""
        lines.append(f"{entry.name}{when}: {entry.description} How to get: {entry.how_to_get}")
    return lines


def _model_state(entry: ModelEntry) -> str:
    schema = "valid" if entry.has_train_schema else entry.train_schema_status
    automl = f"not supported ({entry.automl_blocked_reason})" if entry.automl_blocked_reason else "supported"
    image = entry.image or "to be built or chosen by backend"
    return f"train schema: {schema}; AutoML: {automl}; image: {image}"


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}: {_plain_value(value)}" for key, value in values.items()]


def _plain_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _section(output: Output, title: str, lines: Iterable[str], empty: str = "") -> None:
    """A titled list; left out when it has no lines, unless `empty` says what to print then."""
    shown = list(lines) or ([empty] if empty else [])
    if shown:
        output.line(f"{title}:")
        for line in shown:
            output.line(plain(f"- {line}"))
