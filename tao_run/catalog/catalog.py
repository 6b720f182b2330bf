"""Looks up platforms, models, actions and images: in the given skill bank, else in the packaged facts."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from tao_run.catalog import images, versions
from tao_run.catalog.facts import ActionFacts, ModelFacts, ModelSummary, PlatformFacts
from tao_run.catalog.packaged import PackagedCatalog
from tao_run.errors import UsageError
from tao_run.userpaths import own_path

SKILL_BANK_VARIABLE = "TAO_SKILL_BANK_PATH"
LONG_RUNNING_DEFAULT = True
STATUS_INTERVAL_MINUTES = 5


class Source(Protocol):
    """Where facts come from: a skill bank or the package."""

    origin: str

    @property
    def versions(self) -> Mapping[str, Any]:
        """The content of its versions.yaml."""

    def index(self) -> list[ModelSummary]:
        """The short form of every model."""

    def model(self, name: str) -> ModelFacts:
        """One model by its exact skill name."""

    def platforms(self) -> list[PlatformFacts] | None:
        """All platforms, or None if this source knows none."""


def load(skill_bank: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Catalog:
    """The catalog: of `skill_bank`, else of TAO_SKILL_BANK_PATH, else the packaged one.

    Nothing is read yet, except that a given directory must be a skill bank.

    Raises:
        UsageError: the directory is not a skill bank.
    """
    chosen = skill_bank or (os.environ if environ is None else environ).get(SKILL_BANK_VARIABLE)
    return Catalog(_source(Path(chosen)) if chosen else PackagedCatalog())


def _source(directory: Path) -> Source:
    """A skill bank's directory, or a checkout of tao-run: its scripts have the names of a bank's."""
    own = own_path(str(directory)) / "tao_run" / "catalog" / "data"
    if (own / "models.json").is_file():
        return PackagedCatalog(own)
    from tao_run.catalog.bank import SkillBank

    return SkillBank(directory)


class Catalog:
    """Facts about platforms, models, actions and images. All names are matched without regard to case."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def origin(self) -> str:
        """`packaged`, or the skill bank's directory."""
        return self._source.origin

    @property
    def versions(self) -> Mapping[str, Any]:
        """versions.yaml of the skill bank, or tao-run's own."""
        return self._source.versions

    def platforms(self) -> Sequence[PlatformFacts]:
        """All platforms; a skill bank without a platform manifest leaves the packaged ones in force."""
        return self._platforms

    def models(self) -> Sequence[ModelSummary]:
        """The short form of every model, by skill name."""
        return self._models

    @cached_property
    def _platforms(self) -> Sequence[PlatformFacts]:
        return self._source.platforms() or PackagedCatalog().platforms()

    @cached_property
    def _models(self) -> Sequence[ModelSummary]:
        return self._source.index()

    def platform(self, name: str) -> PlatformFacts:
        """A platform by name or alias. Raises UsageError that lists all platforms."""
        wanted = name.strip().lower()
        for facts in self.platforms():
            if wanted in (facts.name, *facts.aliases):
                return facts
        known = [_with_aliases(facts) for facts in self.platforms()]
        raise UsageError(f"unknown platform {name!r}", f"choose one of: {', '.join(known)}")

    def model(self, name: str) -> ModelFacts:
        """A model by skill name, network architecture, alias or Hugging Face id.

        Raises:
            UsageError: no model, or more than one, goes by this name; the choices are listed.
        """
        found = _matching(name, self.models())
        if len(found) == 1:
            return self._source.model(found[0].model)
        if found:
            names = ", ".join(summary.model for summary in found)
            raise UsageError(f"{name!r} is the name of {len(found)} models", f"choose one of: {names}")
        raise UsageError(f"unknown model {name!r}", _model_choices(name, self.models()))

    def action(self, model: str, action: str) -> tuple[ModelFacts, ActionFacts]:
        """A model and its action, by action name or variant (`export_onnx`).

        Raises:
            UsageError: unknown model or action; the choices are listed.
        """
        facts = self.model(model)
        return facts, action_of(facts, action)

    def resolve_image(
        self, model: str, action: str, override: str | None = None, backend: str | None = None
    ) -> images.ImageResolution:
        """The image in which an action of a model runs, and where that is said.

        Raises:
            UsageError: unknown or ambiguous model, unknown action, or an image that does not resolve.
        """
        facts, found = self.action(model, action)
        return images.resolve_image(model, facts, found, self.versions, override, backend)

    def resolve_reference(self, image: str) -> str:
        """The image that a versions key or a literal stands for. Raises UsageError for an unknown key."""
        return images.resolve_reference(image, self.versions)[0]

    def resolve_key(self, key: str) -> str:
        """The pin under a dotted key of versions.yaml. Raises UsageError that lists the keys."""
        return versions.resolve_key(self.versions, key)


def action_of(facts: ModelFacts, name: str) -> ActionFacts:
    """The action, or the action that has this variant. Raises UsageError that lists the choices."""
    wanted = name.strip().lower()
    for action in facts.actions.values():
        if wanted == action.name.lower() or wanted in action.templates:
            return action
    if wanted == "deploy_gen_trt_engine" and "gen_trt_engine" in facts.actions:
        return facts.actions["gen_trt_engine"]
    raise UsageError(f"{facts.model} has no action {name!r}", f"choose one of: {', '.join(sorted(facts.actions))}")


def _matching(name: str, models: Sequence[ModelSummary]) -> list[ModelSummary]:
    """Models with exactly this name; if there are none, those that differ by `-`, `_` or the skill prefix."""
    wanted = name.strip().lower()
    exact = [summary for summary in models if wanted in {known.lower() for known in summary.names}]
    return exact or [summary for summary in models if _plain(wanted) in _plain_names(summary)]


def _plain_names(summary: ModelSummary) -> set[str]:
    short = summary.model.removeprefix("tao-train-").removeprefix("tao-finetune-")
    return {_plain(name) for name in (*summary.names, short)}


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-")


def _model_choices(name: str, models: Sequence[ModelSummary]) -> str:
    known = {known.lower(): summary for summary in models for known in summary.names}
    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}? `tao-run models` lists all"
    arches = [summary.network_arch for summary in models]
    unique = [summary.network_arch if arches.count(summary.network_arch) == 1 else summary.model for summary in models]
    return f"choose one of: {', '.join(unique)}"


def _with_aliases(facts: PlatformFacts) -> str:
    return f"{facts.name} ({', '.join(facts.aliases)})" if facts.aliases else facts.name
