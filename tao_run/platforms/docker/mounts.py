"""Mounts of the host into the container: `source:target[:mode]`, as the Engine API wants them."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tao_run.errors import UsageError
from tao_run.userpaths import own_path

_PROPAGATIONS = frozenset({"private", "rprivate", "shared", "rshared", "slave", "rslave"})
_RELABEL = frozenset({"z", "Z"})
_FORM = "write SOURCE:TARGET or SOURCE:TARGET:ro"


@dataclass(frozen=True)
class Mount:
    """One directory (or named volume) in the container. `relabel` is SELinux's z or Z."""

    source: str
    target: str
    read_only: bool = False
    propagation: str = ""
    relabel: str = ""

    @property
    def is_volume(self) -> bool:
        """Whether the source is a named volume and no path."""
        return not self.source.startswith("/")

    def to_api(self) -> dict[str, Any]:
        """An entry of HostConfig.Mounts: a list, so one source may have several targets."""
        native: dict[str, Any] = {
            "Type": "volume" if self.is_volume else "bind",
            "Source": self.source,
            "Target": self.target,
            "ReadOnly": self.read_only,
        }
        if self.propagation:
            native["BindOptions"] = {"Propagation": self.propagation}
        return native

    def to_bind(self) -> str:
        """An entry of HostConfig.Binds: creates a missing source, and alone knows SELinux labels."""
        modes = ["ro" if self.read_only else "rw", self.relabel, self.propagation]
        return f"{self.source}:{self.target}:{','.join(filter(None, modes))}"


def parse_mount(text: str, local: bool) -> Mount:
    """A mount from `source:target[:mode]`; `~` and relative sources are taken from this machine if it is `local`.

    Raises UsageError.
    """
    source, _, rest = text.strip().partition(":")
    target, _, modes = rest.partition(":")
    if not source or not target.startswith("/"):
        raise UsageError(f"mount {text!r}: the target must be an absolute path in the container", _FORM)
    read_only, propagation, relabel = _modes(text, modes)
    return Mount(_source(text, source, local), posixpath.normpath(target), read_only, propagation, relabel)


def _modes(text: str, modes: str) -> tuple[bool, str, str]:
    words = [word for word in modes.split(",") if word]
    unknown = [word for word in words if word not in {"ro", "rw"} | _PROPAGATIONS | _RELABEL]
    if unknown:
        raise UsageError(f"mount {text!r}: unknown mode {unknown[0]!r}", "the modes are ro, rw, z, Z, rshared, rslave")
    propagation = next((word for word in words if word in _PROPAGATIONS), "")
    return "ro" in words, propagation, next((word for word in words if word in _RELABEL), "")


def _source(text: str, source: str, local: bool) -> str:
    if source.startswith("/"):
        return posixpath.normpath(source)
    if not source.startswith((".", "~")):
        if "/" in source:
            raise UsageError(f"mount {text!r}: {source!r} is neither a path nor a volume", "begin a path with / or ./")
        return source
    if not local:
        raise UsageError(f"mount {text!r}: the daemon runs on another host", "give the absolute path on that host")
    return str(own_path(source))


def check_mounts(mounts: Sequence[Mount], local: bool) -> None:
    """Raises UsageError if two mounts share a target, or a source on this machine is missing."""
    seen: dict[str, Mount] = {}
    for mount in mounts:
        if mount.target in seen:
            both = f"{seen[mount.target].source} and {mount.source}"
            raise UsageError(f"two mounts have the target {mount.target}: {both}", "give each a target of its own")
        seen[mount.target] = mount
        if local and not mount.is_volume and not Path(mount.source).exists():
            raise UsageError(f"mount source {mount.source} does not exist", f"mkdir -p {mount.source}")


def to_host_config(mounts: Sequence[Mount]) -> dict[str, Any]:
    """The part of HostConfig that holds the mounts."""
    binds = [mount.to_bind() for mount in mounts if mount.relabel]
    plain = [mount.to_api() for mount in mounts if not mount.relabel]
    return {**({"Binds": binds} if binds else {}), **({"Mounts": plain} if plain else {})}
