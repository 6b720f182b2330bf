"""What the catalog knows, as plain data: platforms, credentials, models and actions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class CredentialFact:
    """One variable a platform or model can need. `only_when` is the condition, empty when it always may help."""

    name: str
    source: str = "env_var"
    description: str = ""
    how_to_get: str = ""
    only_when: str = ""


@dataclass(frozen=True)
class CredentialGroup:
    """Variables of which at least one is needed."""

    name: str
    require_one_of: tuple[str, ...]
    preferred: str = ""
    description: str = ""
    how_to_get: str = ""


@dataclass(frozen=True)
class PlatformFacts:
    """A backend: what it is called, which credentials it needs, where its data lies, what to check first."""

    name: str
    display_name: str
    aliases: tuple[str, ...]
    backend_type: str
    description: str
    required_credentials: tuple[CredentialFact, ...] = ()
    credential_groups: tuple[CredentialGroup, ...] = ()
    optional_credentials: tuple[CredentialFact, ...] = ()
    resource_defaults: dict[str, Any] = field(default_factory=dict)
    storage: dict[str, str] = field(default_factory=dict)
    dataset_examples: tuple[str, ...] = ()
    preflight_checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ActionFacts:
    """One thing a model can do, as its metadata declares it.

    `declared_image` is a versions key, a literal image or None (the image has to be built).
    `backends` maps a backend name to its image where a model has several; `default_backend` is the declared one.
    `templates` maps the action and its variants (`export_onnx`) to the packaged spec template's file name.
    """

    name: str
    command: str
    mode: str
    config_format: str
    inputs: dict[str, dict[str, Any]]
    outputs: dict[str, dict[str, Any]]
    upload_excludes: tuple[str, ...]
    declared_image: str | None
    image_source: str
    metadata_path: str
    versions_key: str = ""
    templates: dict[str, str] = field(default_factory=dict)
    backends: dict[str, str | None] = field(default_factory=dict)
    default_backend: str = ""


@dataclass(frozen=True)
class ModelFacts:
    """A model skill with everything a launch needs to know of it. `specs` holds templates by file name."""

    model: str
    network_arch: str
    names: tuple[str, ...]
    description: str
    automl_enabled: bool
    automl_blocked_reason: str
    train_schema_status: str
    automl_default_parameters: tuple[str, ...]
    automl_disabled_parameters: tuple[str, ...]
    failures: dict[str, str]
    required_credentials: tuple[str, ...]
    conditional_credentials: dict[str, str]
    gpu_spec_key: str
    node_spec_key: str
    spec_shorthand_keys: dict[str, str]
    backend_rules: tuple[str, ...]
    actions: dict[str, ActionFacts]
    specs: dict[str, Any] = field(default_factory=dict)

    @property
    def has_train_schema(self) -> bool:
        """Whether a valid train schema is packaged, which AutoML needs."""
        return self.train_schema_status == SCHEMA_VALID


TRAIN_SCHEMA = "schemas/train.schema.json"
SCHEMA_VALID = f"{TRAIN_SCHEMA} is packaged and valid"


@dataclass(frozen=True)
class ModelSummary:
    """The part of a model that lists and name matching need, cheap to load for all models at once."""

    model: str
    network_arch: str
    names: tuple[str, ...]
    actions: tuple[str, ...]
    failures: dict[str, str]
    automl_enabled: bool
    automl_blocked_reason: str
    train_schema_status: str
    automl_default_parameters: tuple[str, ...]
    train_spec_template: str
    declared_image: str | None

    @property
    def has_train_schema(self) -> bool:
        """Whether a valid train schema is packaged, which AutoML needs."""
        return self.train_schema_status == SCHEMA_VALID

    def automl_blocked(self) -> str:
        """Why AutoML cannot run this model's training; empty when it can."""
        if not self.automl_enabled:
            return "automl_enabled is false in model metadata"
        return self.automl_blocked_reason or ("" if self.has_train_schema else self.train_schema_status)


def summary_of(facts: ModelFacts) -> ModelSummary:
    """The short form of `facts`."""
    train = facts.actions.get("train")
    return ModelSummary(
        model=facts.model,
        network_arch=facts.network_arch,
        names=facts.names,
        actions=tuple(sorted(facts.actions)),
        failures=facts.failures,
        automl_enabled=facts.automl_enabled,
        automl_blocked_reason=facts.automl_blocked_reason,
        train_schema_status=facts.train_schema_status,
        automl_default_parameters=facts.automl_default_parameters,
        train_spec_template=train.templates.get("train", "") if train else "",
        declared_image=next((action.declared_image for action in (train, *facts.actions.values()) if action), None),
    )


def to_data(facts: PlatformFacts | ModelFacts | ModelSummary) -> dict[str, Any]:
    """Plain data that JSON can hold; `from_data` is the way back."""
    return asdict(facts)


def _tuples(cls: type[Any], data: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists only: fields declared as tuples become tuples again."""
    declared = {entry.name: str(entry.type) for entry in fields(cls)}
    return {name: tuple(value) if declared[name].startswith("tuple") else value for name, value in data.items()}


def summary_from(data: dict[str, Any]) -> ModelSummary:
    """A summary from what `to_data` wrote."""
    return ModelSummary(**_tuples(ModelSummary, data))


def model_from(data: dict[str, Any]) -> ModelFacts:
    """A model from what `to_data` wrote."""
    actions = {name: ActionFacts(**_tuples(ActionFacts, entry)) for name, entry in data.pop("actions").items()}
    return ModelFacts(**_tuples(ModelFacts, data), actions=actions)


def platform_from(data: dict[str, Any]) -> PlatformFacts:
    """A platform from what `to_data` wrote, or from an entry of a bank's platform manifest."""
    known = {entry.name for entry in fields(PlatformFacts)}
    plain = {name: value for name, value in data.items() if name in known}
    plain["required_credentials"] = [CredentialFact(**entry) for entry in data.get("required_credentials", [])]
    plain["optional_credentials"] = [CredentialFact(**entry) for entry in data.get("optional_credentials", [])]
    plain["credential_groups"] = [
        CredentialGroup(**{**entry, "require_one_of": tuple(entry["require_one_of"])})
        for entry in data.get("credential_groups", [])
    ]
    return PlatformFacts(**_tuples(PlatformFacts, plain))
