"""Finds platforms by name: the built-in ones from a table, others through the entry-point group tao_run.platforms."""

from __future__ import annotations

import difflib
import importlib
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

from tao_run.errors import UsageError

if TYPE_CHECKING:
    from tao_run.platforms.base import Platform

GROUP = "tao_run.platforms"

# A table beside the entry points: reading package metadata takes longer than a whole `tao-run status`.
BUILTIN = {
    "local": "tao_run.platforms.local:LocalSDK",
    "docker": "tao_run.platforms.docker:DockerSDK",
    "kubernetes": "tao_run.platforms.kubernetes:KubernetesSDK",
    "slurm": "tao_run.platforms.slurm:SlurmSDK",
    "lepton": "tao_run.platforms.lepton:LeptonSDK",
    "brev": "tao_run.platforms.brev:BrevSDK",
}
ALIASES = {
    "local-docker": "docker",
    "dgx-cloud": "lepton",
    "k8s": "kubernetes",
    "local-k8s": "kubernetes",
    "cluster": "slurm",
}


def canonical(name: str) -> str:
    """The platform's own name for a name or alias. Raises UsageError listing the choices."""
    wanted = name.strip().lower()
    wanted = ALIASES.get(wanted, wanted)
    if wanted in BUILTIN or wanted in _plugins():
        return wanted
    near = difflib.get_close_matches(wanted, [*names(), *ALIASES], n=1)
    hint = f"did you mean {near[0]}?" if near else "`tao-run platforms` describes them"
    raise UsageError(f"unknown platform {name!r}; the platforms are {', '.join(names())}", hint)


def names() -> list[str]:
    """All platforms that can be used here, the built-in ones first."""
    return [*BUILTIN, *sorted(set(_plugins()) - set(BUILTIN))]


def platform_class(name: str) -> type[Platform]:
    """The adapter class of a platform, imported now and not before."""
    wanted = canonical(name)
    target = BUILTIN.get(wanted) or _plugins()[wanted]
    module, _, attribute = target.partition(":")
    return cast("type[Platform]", getattr(importlib.import_module(module), attribute))


def make(name: str, **parts: Any) -> Platform:
    """An adapter, given its credentials, store, clock and note function."""
    return platform_class(name)(**parts)


def _plugins() -> dict[str, str]:
    return {entry.name: entry.value for entry in metadata.entry_points(group=GROUP)}
