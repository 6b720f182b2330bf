"""What a workspace offers, as tables for people and in the shapes that SDK users know."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tao_run.jobs.model import ResourceTable
from tao_run.platforms.lepton.discovery import (
    SHARED,
    NodeGroup,
    Shape,
    allowed_prefixes,
    choose_group,
    owned_by_user,
)
from tao_run.platforms.lepton.workspace import Workspace

_AT_ONCE = 8


def tables(workspace: Workspace, user: str) -> list[ResourceTable]:
    """Node groups, shapes and volumes of the workspace."""
    groups = workspace.groups()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        volumes = [(group, volume) for group in groups for volume in group.volumes if volume.shared]
        rules = pool.map(lambda pair: prefixes(workspace, pair[1].name, pair[0], user), volumes)
        offered = list(zip([*groups, SHARED], pool.map(workspace.shapes, [*groups, SHARED]), strict=True))
        allowed = list(zip(volumes, rules, strict=True))
    return [
        ResourceTable(
            "node groups",
            ("name", "id", "gpu", "ready_nodes", "quota"),
            tuple((g.name, g.id, g.gpu, str(g.ready_nodes), "yes" if g.quota else "no") for g in groups),
        ),
        ResourceTable(
            "shapes",
            ("node_group", "resource_shape", "gpus", "gpu", "cpu", "memory_mb"),
            tuple(_shape_row(group, shape) for group, shapes in offered for shape in shapes),
        ),
        ResourceTable(
            "volumes",
            ("node_group", "volume", "type", "from_path", "allowed"),
            tuple((g.name, v.name, v.type, v.from_path, ", ".join(paths) or "none") for (g, v), paths in allowed),
        ),
    ]


def shape_table(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """Shapes by `<node group id>/<shape id>`; the shared capacity is called `shared`."""
    groups = [*workspace.groups(), SHARED]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        offered = list(zip(groups, pool.map(workspace.shapes, groups), strict=True))
    return {
        f"{group.id or 'shared'}/{shape.id}": {
            "cluster": group.name or "shared",
            "node_group_id": group.id or None,
            "gpu_type": shape.id,
            "gpu_count": int(shape.gpus),
            "instance_type": shape.gpu or "cpu",
            "cpu_cores": shape.cpu,
            "system_memory_mb": shape.memory_mb,
        }
        for group, shapes in offered
        for shape in shapes
    }


def volume_rows(workspace: Workspace, wanted: str | None) -> list[dict[str, str]]:
    """Volumes of one group or of all."""
    groups = workspace.groups()
    chosen = [choose_group(groups, wanted)] if wanted else groups
    return [
        {"name": volume.name, "from_path": volume.from_path, "type": volume.type, "node_group": group.id}
        for group in chosen
        for volume in group.volumes
    ]


def prefix_rows(workspace: Workspace, volume: str, wanted: str, user: str) -> list[str]:
    """The path prefixes of a volume of one group that may be mounted."""
    return prefixes(workspace, volume, choose_group(workspace.groups(), wanted), user)


def prefixes(workspace: Workspace, volume: str, group: NodeGroup, user: str) -> list[str]:
    """Allowed prefixes; while the user is not known, those with a folder for each user are named as they are."""
    rules = workspace.permissions(volume, group)
    found = allowed_prefixes(rules, user)
    return found if user else [*(f"{prefix}/<you>" for prefix in owned_by_user(rules)), *found]


def _shape_row(group: NodeGroup, shape: Shape) -> tuple[str, ...]:
    return (group.name or "(shared)", shape.id, f"{shape.gpus:g}", shape.gpu, f"{shape.cpu:g}", str(shape.memory_mb))
