"""Reads a skill bank of either generation from a directory into the catalog's facts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tao_run.catalog.corrections import corrected_platforms
from tao_run.catalog.facts import (
    SCHEMA_VALID,
    TRAIN_SCHEMA,
    ActionFacts,
    ModelFacts,
    ModelSummary,
    PlatformFacts,
    summary_of,
)
from tao_run.catalog.shapes import (
    AutomlSupport,
    PlatformManifest,
    SchemasManifest,
    Shape,
    SkillInfo,
    TrainSchema,
    require,
)
from tao_run.errors import UsageError
from tao_run.userpaths import own_path
from tao_run.yamltext import load_yaml

MODELS = Path("skills/models")
PLATFORM_MANIFEST = Path("skills/platform/platforms.manifest.json")
# TensorRT engines are built in the deploy image only, so there the deploy profile outranks the model's own entry.
DEPLOY_ONLY = "gen_trt_engine"
_VERSIONS_KEY = re.compile(r"^\s*container_image:\s*(\S+)\s+#\s*versions-key:\s*(\S+)", re.MULTILINE)


class SkillBank:
    """A skill bank's directory.

    Raises:
        UsageError: the directory is no skill bank, or one of its files cannot be read; the file is named.
    """

    def __init__(self, root: Path) -> None:
        self.root = own_path(str(root))
        self.origin = str(self.root)
        if not (self.root / MODELS).is_dir():
            raise UsageError(
                f"{self.root} is not a TAO skill bank: it has no {MODELS}",
                "give the directory that holds versions.yaml and skills/ with --skill-bank or TAO_SKILL_BANK_PATH",
            )

    @cached_property
    def versions(self) -> Mapping[str, Any]:
        """The bank's versions.yaml (images and wheels); empty if it has none."""
        path = self.root / "versions.yaml"
        return _mapping(path) if path.is_file() else {}

    @cached_property
    def models(self) -> dict[str, ModelFacts]:
        """All models by skill name."""
        folders = sorted((self.root / MODELS).glob("*/references/skill_info.yaml"))
        return {path.parent.parent.name: self._model(path.parent.parent) for path in folders}

    def index(self) -> list[ModelSummary]:
        """The short form of every model."""
        return [summary_of(facts) for facts in self.models.values()]

    def model(self, name: str) -> ModelFacts:
        """One model by its exact skill name."""
        return self.models[name]

    def platforms(self) -> list[PlatformFacts] | None:
        """The platforms of the bank's manifest; None for a bank that has none (August 2026 and later)."""
        path = self.root / PLATFORM_MANIFEST
        return corrected_platforms(_json(path, PlatformManifest)) if path.is_file() else None

    @cached_property
    def _manifest(self) -> Mapping[str, Any]:
        path = self.root / MODELS / "schemas.manifest.json"
        models: Mapping[str, Any] = _json(path, SchemasManifest).get("models", {}) if path.is_file() else {}
        return models

    @cached_property
    def _automl_parameters(self) -> dict[str, list[str]]:
        """AutoML parameters by skill, of the bank's support list: a train schema often leaves them out."""
        path = self.root / MODELS / "automl_support.json"
        supported = _json(path, AutomlSupport).get("supported", []) if path.is_file() else []
        return {entry["model"]: entry.get("automl_default_parameters") or [] for entry in supported}

    def _model(self, folder: Path) -> ModelFacts:
        path = folder / "references" / "skill_info.yaml"
        info = _mapping(path, SkillInfo)
        schema, status = _train_schema(folder / TRAIN_SCHEMA)
        actions = self._actions(folder, info)
        default_parameters = self._automl_parameters.get(folder.name) or schema.get("automl_default_parameters")
        files = sorted({name for action in actions.values() for name in action.templates.values()})
        return ModelFacts(
            model=folder.name,
            network_arch=info.get("network_arch") or folder.name,
            names=_names(folder.name, info),
            description=" ".join(str(info.get("description") or "").split()),
            automl_enabled=bool(info.get("automl_enabled", True)),
            automl_blocked_reason=str(info.get("automl_blocked_reason") or ""),
            train_schema_status=status,
            automl_default_parameters=tuple(default_parameters or ()),
            automl_disabled_parameters=tuple(schema.get("automl_disabled_parameters") or ()),
            failures=dict((self._manifest.get(folder.name) or {}).get("failures") or {}),
            required_credentials=tuple(info.get("required_credentials") or ()),
            conditional_credentials=dict(info.get("conditional_credentials") or {}),
            gpu_spec_key=str(info.get("gpu_spec_key") or ""),
            node_spec_key=str(info.get("node_spec_key") or ""),
            spec_shorthand_keys={k: v for k, v in (info.get("spec_shorthand_keys") or {}).items() if v},
            backend_rules=tuple(
                f"{rule.get('match')}: {rule.get('backend')}"
                for rule in (info.get("backend_selection") or {}).get("rules") or ()
            ),
            actions=actions,
            specs={name: _mapping(folder / "references" / name) for name in files},
        )

    def _actions(self, folder: Path, info: Mapping[str, Any]) -> dict[str, ActionFacts]:
        """The model's own actions and those of its deploy profiles.

        A deploy action that the model also has by itself (evaluate, inference) is called `deploy_<action>`.
        """
        path = folder / "references" / "skill_info.yaml"
        actions = {name: self._action(path, info, name, name, "model") for name in info.get("actions") or {}}
        for profile in sorted(folder.glob("references/tao-deploy-*.skill_info.yaml")):
            deploy = _mapping(profile, SkillInfo)
            for plain in deploy.get("actions") or {}:
                name = plain if plain == DEPLOY_ONLY or plain not in actions else f"deploy_{plain}"
                actions[name] = self._action(profile, deploy, plain, name, "deploy")
        return actions

    def _action(self, path: Path, info: Mapping[str, Any], plain: str, name: str, kind: str) -> ActionFacts:
        entry = info["actions"][plain]
        relative = path.relative_to(self.root).as_posix()
        image, source = _declared_image(entry, info, kind)
        backends = {
            backend: contract.get("container_image") if isinstance(contract, dict) else None
            for backend, contract in (info.get("backend_contracts") or {}).items()
        }
        default_backend = ((info.get("backend_selection") or {}).get("defaults") or {}).get(plain, "")
        return ActionFacts(
            name=name,
            command=entry["command"],
            mode=entry.get("mode") or "config",
            config_format=entry.get("config_format") or "yaml",
            inputs=_declarations(entry.get("inputs")),
            outputs=_declarations(entry.get("outputs")),
            upload_excludes=tuple(entry.get("upload_excludes") or ()),
            declared_image=image,
            image_source=f"{source} in {relative}",
            metadata_path=relative,
            versions_key=_versions_keys(path).get(image or "", ""),
            templates=_templates(path.parent, info, plain, name, kind),
            backends=backends,
            default_backend=default_backend,
        )


def _mapping(path: Path, shape: type[Shape] = Shape) -> dict[str, Any]:
    try:
        data = load_yaml(path.read_text("utf-8"))
        json.dumps(data, default=str, skipkeys=True)  # what holds itself can be written down nowhere
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {path}: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path} holds no mapping")
    require(shape, data, path)
    return data


def _json(path: Path, shape: type[Shape]) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path} holds no JSON object")
    require(shape, data, path)
    return data


def _train_schema(path: Path) -> tuple[dict[str, Any], str]:
    """The train schema and its state in words: AutoML runs only with a valid one."""
    if not path.is_file():
        return {}, f"{TRAIN_SCHEMA} is not packaged"
    try:
        return _json(path, TrainSchema), SCHEMA_VALID
    except UsageError as error:
        return {}, f"{TRAIN_SCHEMA} is invalid: {error.message}"


def _names(folder: str, info: Mapping[str, Any]) -> tuple[str, ...]:
    """Every name a user may call the model by, the skill's own first."""
    singles = [folder, info.get("network_arch"), info.get("model"), info.get("name")]
    lists = [*(info.get("aliases") or ()), *(info.get("huggingface_model_ids") or ())]
    return tuple(dict.fromkeys(str(name) for name in [*singles, *lists] if name))


def _declared_image(entry: Mapping[str, Any], info: Mapping[str, Any], kind: str) -> tuple[str | None, str]:
    for scope, holder in (("action", entry), (kind, info)):
        for key in ("container_image", "image"):
            if holder.get(key):
                return str(holder[key]), f"{scope}.{key}"
    return None, f"{kind}.container_image"


def _versions_keys(path: Path) -> dict[str, str]:
    """Literal image -> the versions key that its comment names (banks of August 2026 and later)."""
    return dict(_VERSIONS_KEY.findall(path.read_text("utf-8")))


def _declarations(declared: Any) -> dict[str, dict[str, Any]]:
    """Inputs or outputs as key -> declaration; some skills just list the keys."""
    if isinstance(declared, dict):
        return {str(key): dict(value or {}) for key, value in declared.items()}
    return {str(key): {} for key in declared or ()}


def _templates(folder: Path, info: Mapping[str, Any], plain: str, name: str, kind: str) -> dict[str, str]:
    """The spec template of an action and those of its variants, by variant name.

    The metadata's own map comes first, then the file-name convention. A map with two levels
    (visual-changenet: classify and segment) makes its first task the plain one, the others variants.
    """
    declared = info.get("spec_templates") or {}
    found: dict[str, str] = {}
    if isinstance(declared.get(plain), str):
        found[name] = Path(declared[plain]).name
    for task, by_action in declared.items():
        if isinstance(by_action, dict) and isinstance(by_action.get(plain), str):
            found[name if name not in found else f"{name}_{task}"] = by_action[plain]
    prefix = f"spec_template_{'deploy_' if kind == 'deploy' else ''}{plain}"
    if not found:
        for file in sorted(folder.glob(f"{prefix}*.yaml")):
            variant = file.stem.removeprefix(prefix)
            if plain + variant == plain or plain + variant not in info["actions"]:
                found[name + variant] = file.name
    return {variant: file for variant, file in found.items() if (folder / file).is_file()}
