"""Choosing among what a workspace offers: node group, shape, volume and path. Pure; never a silent substitute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tao_run.errors import UsageError
from tao_run.platforms.lepton.documents import amount, number, part, parts, strings, word

#: file systems that all nodes share, the preferred first; matched in a volume's name
_PREFERRED = ("lustre", "filestore")
_SHARED_KINDS = ("nfs", "remote")


@dataclass(frozen=True)
class Volume:
    """A volume of a node group. `kind` is Lepton's `from` (nfs, remote, local)."""

    name: str
    kind: str
    from_path: str

    @property
    def source(self) -> str:
        """How a job's mount names it."""
        return f"node-{self.kind}:{self.name}"

    @property
    def shared(self) -> bool:
        """Whether all nodes of the group see the same files."""
        return self.kind in _SHARED_KINDS

    @property
    def type(self) -> str:
        """The kind of file system in people's words."""
        known = {"lustre": "Lustre", "filestore": "Filestore"}
        return next((word for part, word in known.items() if part in self.name.lower()), self.kind.upper())


@dataclass(frozen=True)
class NodeGroup:
    """A dedicated node group. An empty `id` stands for the shared capacity."""

    id: str = ""
    name: str = ""
    gpu: str = ""
    ready_nodes: int = 0
    quota: bool = False
    volumes: tuple[Volume, ...] = ()

    def __str__(self) -> str:
        return f"node group {self.name or self.id}" if self.id else "the shared capacity"


@dataclass(frozen=True)
class Shape:
    """A resource shape: what one worker gets. Memory in MiB."""

    id: str
    gpus: float
    gpu: str = ""
    cpu: float = 0
    memory_mb: int = 0


SHARED = NodeGroup()


def read_group(row: Mapping[str, Any]) -> NodeGroup:
    """A node group document."""
    metadata, spec, status = (part(row, key) for key in ("metadata", "spec", "status"))
    volumes = (
        Volume(word(item.get("name")), word(item.get("from")) or "nfs", word(item.get("from_path")))
        for item in parts(spec, "volumes")
        if word(item.get("name"))
    )
    identity, name = word(metadata.get("id")), word(metadata.get("name"))
    return NodeGroup(
        id=identity or name,
        name=name or identity,
        gpu=word(spec.get("gpu_product")),
        ready_nodes=number(status.get("ready_nodes")),
        quota=bool(status.get("quota_enabled")),
        volumes=tuple(volumes),
    )


def read_shape(row: Mapping[str, Any]) -> Shape:
    """A shape document."""
    metadata, spec = part(row, "metadata"), part(row, "spec")
    return Shape(
        id=word(metadata.get("id")) or word(spec.get("name")),
        gpus=amount(spec.get("accelerator_num")),
        gpu=word(spec.get("accelerator_type")),
        cpu=amount(spec.get("cpu")),
        memory_mb=number(spec.get("memory_in_mb")),
    )


def choose_group(groups: Sequence[NodeGroup], wanted: str) -> NodeGroup:
    """The group of this id or name. Raises UsageError listing the groups."""
    found = [group for group in groups if group.id == wanted] or [g for g in groups if g.name == wanted]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(sorted(f"{group.name} ({group.id})" for group in groups)) or "none"
    if found:
        raise UsageError(f"several node groups are called {wanted!r}: {listed}", "give the id")
    raise UsageError(f"no node group {wanted!r} in this workspace", f"there are: {listed}")


def choose_shape(shapes: Iterable[Shape], gpus: int, group: NodeGroup) -> str:
    """The one shape of the group with exactly this many GPUs.

    Raises UsageError listing the shapes if there is none or more than one: neither a bigger shape nor another
    group is taken instead.
    """
    offered = list(shapes)
    exact = [shape for shape in offered if shape.gpus == gpus]
    if len(exact) == 1:
        return exact[0].id
    what = f"{gpus} GPU{'' if gpus == 1 else 's'}" if gpus else "no GPU"
    if not exact:
        listed = ", ".join(f"{s.id} ({s.gpus:g} GPU)" for s in sorted(offered, key=lambda s: (s.gpus, s.id)))
        raise UsageError(f"{group} has no shape with {what} per node", f"there are: {listed or 'none'}")
    raise UsageError(
        f"{group} has {len(exact)} shapes with {what} per node",
        "choose with -o resource_shape=ID: " + ", ".join(sorted(shape.id for shape in exact)),
    )


def choose_volume(group: NodeGroup, wanted: str = "") -> Volume | None:
    """The volume of this name; without a name Lustre before Filestore before the first shared one, or None.

    Raises UsageError listing the volumes if the named one is not there.
    """
    if wanted:
        named = [volume for volume in group.volumes if volume.name == wanted]
        if named:
            return named[0]
        listed = ", ".join(volume.name for volume in group.volumes) or "none"
        raise UsageError(f"{group} has no volume {wanted!r}", f"there are: {listed}")
    shared = [volume for volume in group.volumes if volume.shared]
    for kind in _PREFERRED:
        for volume in shared:
            if kind in volume.name.lower():
                return volume
    return shared[0] if shared else None


def allowed_prefixes(permissions: Iterable[Mapping[str, Any]], user: str) -> list[str]:
    """The path prefixes that `user` (a name or e-mail address, may be empty) may mount, own folders first.

    No rules at all: everything, `/`. A rule `by_user` stands for `<prefix>/<local part of the address>` and
    is left out while the user is not known.
    """
    rules = list(permissions)
    if not rules:
        return ["/"]
    rules = [rule for rule in rules if isinstance(rule.get("path_prefix"), str)]
    local_part = user.partition("@")[0]
    own, common = [], []
    for rule in rules:
        prefix = "/" + rule["path_prefix"].strip("/")
        if not _meant(strings(rule, "allowed_users") or ["*"], user):
            continue
        if rule.get("subfolder_policy") == "by_user":
            own += [f"{prefix.rstrip('/')}/{local_part}"] if local_part else []
        else:
            common.append(prefix)
    return own + common


def owned_by_user(permissions: Iterable[Mapping[str, Any]]) -> list[str]:
    """The prefixes under which everybody has a folder of their own."""
    own = [rule for rule in permissions if rule.get("subfolder_policy") == "by_user"]
    return ["/" + rule["path_prefix"].strip("/") for rule in own if isinstance(rule.get("path_prefix"), str)]


def _meant(users: Iterable[str], user: str) -> bool:
    listed = set(users)
    if "*" in listed or not user:
        return "*" in listed
    if "@" in user:
        return user in listed
    return user in {item.partition("@")[0] for item in listed}
