"""Which container image a model and action run in: overrides, declared keys and literals, backends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tao_run.catalog.facts import ActionFacts, ModelFacts
from tao_run.catalog.versions import keys_of, lookup
from tao_run.errors import UsageError

_KEY = re.compile(r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")
# The image reference grammar of the OCI distribution spec: [host[:port]/]path[:tag][@digest].
_PATH = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"^(?:(?:[A-Za-z0-9.-]+(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?)/)?{_PATH}(?:/{_PATH})*"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z][\w.+-]*:[0-9a-fA-F]{32,})?$",
    re.ASCII,
)


@dataclass(frozen=True)
class ImageResolution:
    """An image and where it comes from. `resolved_from` is versions.yaml, absolute or override."""

    requested_model: str
    model: str
    network_arch: str
    action: str
    image: str
    declared_image: str | None
    default_image: str | None
    resolved_from: str
    source: str
    metadata_path: str
    backend: str = ""


def resolve_reference(text: str, versions: Mapping[str, Any]) -> tuple[str, str]:
    """Image and origin (`versions.yaml` or `absolute`) of a key or a literal.

    A key is dotted and has no tag, digest or slash: `tao_toolkit.pyt`, `images.tao_toolkit.pyt`.

    Raises:
        UsageError: an unknown key (the known ones are listed), or not a valid reference.
    """
    if _is_key(text):
        found = lookup(versions, f"images.{text.removeprefix('images.')}")
        if found is None:
            choices = keys_of(versions.get("images", {}))
            raise UsageError(
                f"image key {text!r} is not in versions.yaml",
                f"choose one of: {', '.join(choices)}; an image of that name is written with its tag",
            )
        return found, "versions.yaml"
    if not _REFERENCE.match(text):
        raise UsageError(
            f"{text!r} is not a container image", "write [registry/]name[:tag], such as nvcr.io/org/image:1.0"
        )
    return text, "absolute"


def resolve_image(
    requested: str,
    model: ModelFacts,
    action: ActionFacts,
    versions: Mapping[str, Any],
    override: str | None = None,
    backend: str | None = None,
) -> ImageResolution:
    """The image of an action: the override, else what the metadata declares.

    Raises:
        UsageError: no image is declared, the key is unknown, or several backends could be meant.
    """
    chosen, declared = _declared(requested, model, action, backend, needed=override is None)
    default = resolve_reference(declared, versions)[0] if declared and override is None else None
    source = action.image_source
    if override is not None:
        image, _ = resolve_reference(override, versions)
        resolved_from, source = "override", "--image"
    else:
        image, resolved_from = resolve_reference(declared or "", versions)
    if chosen and override is None:
        source = f"backend_contracts.{chosen}.container_image in {action.metadata_path}"
    return ImageResolution(
        requested_model=requested,
        model=model.model,
        network_arch=model.network_arch,
        action=action.name,
        image=image,
        declared_image=declared,
        default_image=default,
        resolved_from=resolved_from,
        source=source,
        metadata_path=action.metadata_path,
        backend=chosen,
    )


def _is_key(text: str) -> bool:
    return bool(_KEY.match(text))


def _declared(
    requested: str, model: ModelFacts, action: ActionFacts, backend: str | None, needed: bool
) -> tuple[str, str | None]:
    """Backend name (empty where the model has just one) and declared image."""
    if not action.backends:
        if backend:
            raise UsageError(f"{model.model} has no choice of backends", "leave out --backend")
        if needed and not action.declared_image:
            raise UsageError(
                f"{model.model} has no published image for {action.name}", "build it and give it with --image"
            )
        return "", action.declared_image
    chosen = backend or _default_backend(requested, model, action, needed)
    if chosen and chosen not in action.backends:
        raise UsageError(f"{model.model} has no backend {chosen!r}", f"choose one of: {', '.join(action.backends)}")
    return chosen, action.backends.get(chosen)


def _default_backend(requested: str, model: ModelFacts, action: ActionFacts, needed: bool) -> str:
    """The declared default, unless the name asked for has rules of its own: then the user has to say."""
    rules = [rule for rule in model.backend_rules if requested.lower() in rule.lower()]
    if requested.lower() in {name.lower() for name in action.backends}:
        return next(name for name in action.backends if name.lower() == requested.lower())
    if needed and (rules or not action.default_backend):
        stated = f" (its rules: {'; '.join(rules)})" if rules else ""
        raise UsageError(
            f"{requested} {action.name} runs on one of several backends{stated}",
            f"say which with --backend: {', '.join(action.backends)}",
        )
    return action.default_backend
