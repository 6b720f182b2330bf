"""Platform facts where tao-run knows better than a bank's platform manifest, and what it adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tao_run.catalog.facts import PlatformFacts, platform_from
from tao_run.yamltext import load_yaml


def corrected_platforms(manifest: Mapping[str, Any]) -> list[PlatformFacts]:
    """The platforms of a manifest (schema version 3) with our corrections applied, in our order."""
    corrections = load_yaml((Path(__file__).parent / "data" / "corrections.yaml").read_text("utf-8"))
    definitions = {**manifest.get("credential_definitions", {}), **corrections["credential_definitions"]}
    declared = {entry["name"]: entry for entry in manifest.get("platforms", [])}
    platforms = []
    for name, correction in corrections["platforms"].items():
        entry = {**declared.get(correction.get("manifest_name", name), {}), **correction, "name": name}
        for kind in ("required_credentials", "optional_credentials"):
            entry[kind] = [_described(item, definitions) for item in entry.get(kind, [])]
        platforms.append(platform_from(entry))
    return platforms


def _described(item: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A credential entry with what the definitions say of it; the entry's own words win."""
    return {**definitions.get(item["name"], {}), "source": "env_var", **item}
