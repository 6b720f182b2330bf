"""What `platforms`, `models` and `resolve-image` answer, with the keys that the skill bank's scripts print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tao_run.catalog.catalog import LONG_RUNNING_DEFAULT, STATUS_INTERVAL_MINUTES, Catalog, action_of
from tao_run.catalog.facts import (
    TRAIN_SCHEMA,
    CredentialFact,
    CredentialGroup,
    ModelSummary,
    PlatformFacts,
)
from tao_run.catalog.images import ImageResolution
from tao_run.errors import UsageError

if TYPE_CHECKING:
    from tao_run.credentials import Credentials

SUPPORT_RULE = (
    "AutoML is enabled at model level; runnable AutoML also requires "
    f"skills/models/<network>/{TRAIN_SCHEMA} to be packaged and valid."
)


@dataclass(frozen=True)
class Readiness:
    """Presence of one platform's credentials here. Names only: values are never looked at."""

    present: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def ready(self) -> bool:
        """Whether nothing that is always required is missing."""
        return not self.missing


@dataclass(frozen=True)
class PlatformEntry:
    """One platform in the list."""

    name: str
    display_name: str
    aliases: tuple[str, ...]
    backend_type: str
    description: str
    readiness: Readiness | None = None


@dataclass(frozen=True)
class PlatformList:
    """All platforms, and what to propose for watching a job."""

    platforms: tuple[PlatformEntry, ...]
    prompt_defaults: Mapping[str, Any] = field(
        default_factory=lambda: {
            "long_running_enabled": LONG_RUNNING_DEFAULT,
            "status_interval_minutes": STATUS_INTERVAL_MINUTES,
        }
    )
    schema_version: int = 3


@dataclass(frozen=True)
class PlatformDetail:
    """One platform: only its own credentials, each with its condition."""

    platform: str
    display_name: str
    aliases: tuple[str, ...]
    description: str
    required_credentials: tuple[CredentialFact, ...]
    credential_groups: tuple[CredentialGroup, ...]
    optional_credentials: tuple[CredentialFact, ...]
    resource_defaults: Mapping[str, Any]
    storage: Mapping[str, str]
    dataset_examples: tuple[str, ...]
    preflight_checks: tuple[str, ...]
    readiness: Readiness | None = None
    schema_version: int = 3


@dataclass(frozen=True)
class ModelEntry:
    """One model in the list. `image` is the image of the action asked for, else of training; None: to be built."""

    model: str
    network_arch: str
    aliases: tuple[str, ...]
    actions: tuple[str, ...]
    image: str | None
    failures: Mapping[str, str]
    automl_enabled: bool
    automl_blocked_reason: str
    has_train_schema: bool
    train_schema: str
    train_schema_status: str


@dataclass(frozen=True)
class ModelList:
    """All models, or those that have one action."""

    models: tuple[ModelEntry, ...]
    source: str
    schema_version: int = 1


@dataclass(frozen=True)
class AutomlEntry:
    """A model whose training AutoML can run."""

    model: str
    network_arch: str
    automl_enabled: bool
    automl_default_parameters: tuple[str, ...]
    train_schema: str
    train_schema_status: str
    train_spec_template: str


@dataclass(frozen=True)
class AutomlBlocked:
    """A model whose training AutoML cannot run, and why."""

    model: str
    network_arch: str
    automl_enabled: bool
    reason: str
    train_schema_status: str


@dataclass(frozen=True)
class AutomlSupport:
    """Which models AutoML can train."""

    supported: tuple[AutomlEntry, ...]
    unsupported: tuple[AutomlBlocked, ...]
    source: str
    support_rule: str = SUPPORT_RULE
    schema_version: int = 1


@dataclass(frozen=True)
class ResolvedImage:
    """The image of a model and action, to be confirmed before launch."""

    requested_model: str
    model: str
    network_arch: str
    action: str
    image: str
    default_image: str | None
    declared_image: str | None
    resolved_from: str
    source: str
    metadata_path: str
    backend: str
    catalog: str
    override_key: str = "image"
    confirmation_required: bool = True
    schema_version: int = 2


def list_platforms(catalog: Catalog, credentials: Credentials | None = None) -> PlatformList:
    """All platforms; with `credentials`, also which of them lack something here."""
    return PlatformList(
        tuple(
            PlatformEntry(
                name=facts.name,
                display_name=facts.display_name,
                aliases=facts.aliases,
                backend_type=facts.backend_type,
                description=facts.description,
                readiness=readiness(facts, credentials) if credentials else None,
            )
            for facts in catalog.platforms()
        )
    )


def describe_platform(catalog: Catalog, name: str, credentials: Credentials | None = None) -> PlatformDetail:
    """One platform by name or alias. Raises UsageError that lists all platforms."""
    facts = catalog.platform(name)
    return PlatformDetail(
        platform=facts.name,
        display_name=facts.display_name,
        aliases=facts.aliases,
        description=facts.description,
        required_credentials=facts.required_credentials,
        credential_groups=facts.credential_groups,
        optional_credentials=facts.optional_credentials,
        resource_defaults=facts.resource_defaults,
        storage=facts.storage,
        dataset_examples=facts.dataset_examples,
        preflight_checks=facts.preflight_checks,
        readiness=readiness(facts, credentials) if credentials else None,
    )


def readiness(facts: PlatformFacts, credentials: Credentials) -> Readiness:
    """Which of a platform's variables are set, and which required ones (or groups) are not."""
    every = [entry.name for entry in (*facts.required_credentials, *facts.optional_credentials)]
    every += [name for group in facts.credential_groups for name in group.require_one_of]
    missing = credentials.missing(entry.name for entry in facts.required_credentials)
    for group in facts.credential_groups:
        if not any(credentials.has(name) for name in group.require_one_of):
            missing.append(" or ".join(group.require_one_of))
    present = tuple(name for name in dict.fromkeys(every) if credentials.has(name))
    return Readiness(present, tuple(missing))


def list_models(catalog: Catalog, action: str | None = None) -> ModelList:
    """All models; with `action`, those that have it, with that action's image."""
    chosen = _having(catalog, action)
    return ModelList(tuple(_model_entry(catalog, summary, action) for summary in chosen), catalog.origin)


def list_automl(catalog: Catalog, action: str | None = None) -> AutomlSupport:
    """Which models AutoML can train, and why not the others."""
    chosen = _having(catalog, action)
    return AutomlSupport(
        supported=tuple(_automl_entry(summary) for summary in chosen if not summary.automl_blocked()),
        unsupported=tuple(
            AutomlBlocked(
                model=summary.model,
                network_arch=summary.network_arch,
                automl_enabled=summary.automl_enabled,
                reason=summary.automl_blocked(),
                train_schema_status=summary.train_schema_status,
            )
            for summary in chosen
            if summary.automl_blocked()
        ),
        source=catalog.origin,
    )


def resolved_image(catalog: Catalog, resolution: ImageResolution) -> ResolvedImage:
    """A resolution as it is reported."""
    return ResolvedImage(
        requested_model=resolution.requested_model,
        model=resolution.model,
        network_arch=resolution.network_arch,
        action=resolution.action,
        image=resolution.image,
        default_image=resolution.default_image,
        declared_image=resolution.declared_image,
        resolved_from=resolution.resolved_from,
        source=resolution.source,
        metadata_path=resolution.metadata_path,
        backend=resolution.backend,
        catalog=catalog.origin,
    )


def _having(catalog: Catalog, action: str | None) -> Sequence[ModelSummary]:
    """Models that have the action. Raises UsageError if none has it: then it is misspelled."""
    models = catalog.models()
    if action is None:
        return models
    chosen = [summary for summary in models if action.lower() in summary.actions]
    if not chosen:
        known = sorted({name for summary in models for name in summary.actions})
        raise UsageError(f"no model has an action {action!r}", f"choose one of: {', '.join(known)}")
    return chosen


def _model_entry(catalog: Catalog, summary: ModelSummary, action: str | None) -> ModelEntry:
    declared = summary.declared_image
    if action is not None:
        declared = action_of(catalog.model(summary.model), action).declared_image
    return ModelEntry(
        model=summary.model,
        network_arch=summary.network_arch,
        aliases=tuple(name for name in summary.names if name not in (summary.model, summary.network_arch)),
        actions=summary.actions,
        image=catalog.resolve_reference(declared) if declared else None,
        failures=summary.failures,
        automl_enabled=summary.automl_enabled,
        automl_blocked_reason=summary.automl_blocked(),
        has_train_schema=summary.has_train_schema,
        train_schema=TRAIN_SCHEMA,
        train_schema_status=summary.train_schema_status,
    )


def _automl_entry(summary: ModelSummary) -> AutomlEntry:
    template = summary.train_spec_template
    return AutomlEntry(
        model=summary.model,
        network_arch=summary.network_arch,
        automl_enabled=summary.automl_enabled,
        automl_default_parameters=summary.automl_default_parameters,
        train_schema=TRAIN_SCHEMA,
        train_schema_status=summary.train_schema_status,
        train_spec_template=f"references/{template}" if template else "",
    )
