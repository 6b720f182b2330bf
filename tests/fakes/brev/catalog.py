"""Instance types of the brev double: what `search` finds, and what `create` makes of them."""

from __future__ import annotations

from typing import Any

from tests.fakes.brev.cloud import Cloud
from tests.fakes.brev.grammar import Call

# flag of a search -> field of a row that must be at least that much
_AT_LEAST = {
    "min-vram": "vram_per_gpu_gb",
    "min-total-vram": "total_vram_gb",
    "min-capability": "capability",
    "min-disk": "disk_max_gb",
}


def row(kind: str, gpu: str, count: int, vram: float, price: float, provider: str = "aws") -> dict[str, Any]:
    """One item of `brev search --json`."""
    return {
        "type": kind,
        "cloud": provider,
        "provider": provider,
        "gpu_name": gpu,
        "gpu_count": count,
        "vram_per_gpu_gb": vram,
        "total_vram_gb": vram * count,
        "capability": 8.0,
        "vcpus": 8 * count,
        "memory": "32GiB",
        "ram_gb": 32,
        "arch": "x86_64",
        "disk_min_gb": 64,
        "disk_max_gb": 1024,
        "boot_time_seconds": 240,
        "stoppable": True,
        "rebootable": True,
        "flex_ports": False,
        "target_disk_gb": 64,
        "price_per_hour": price,
    }


def matching(types: list[dict[str, Any]], call: Call) -> list[dict[str, Any]]:
    """The types that pass the filters of a command line, the cheapest first (as without `--sort`)."""
    found = [item for item in types if _passes(item, call)]
    return sorted(found, key=lambda item: float(item["price_per_hour"]))


def _passes(item: dict[str, Any], call: Call) -> bool:
    flags = call.flags
    if flags.get("gpu-name", "").lower() not in item["gpu_name"].lower():
        return False
    if flags.get("provider", "").lower() not in item["provider"].lower():
        return False
    if "max-boot-time" in flags and item["boot_time_seconds"] > 60 * int(flags["max-boot-time"]):
        return False
    if any(call.has(name) and not item[name.replace("-", "_")] for name in ("stoppable", "rebootable")):
        return False
    return all(item[key] >= float(flags[flag]) for flag, key in _AT_LEAST.items() if flag in flags)


def create(cloud: Cloud, name: str, kind: str) -> str:
    """Make an instance of a type. Returns what the API says when it does not."""
    with cloud.edit() as state:
        if any(item["name"] == name for item in state["workspaces"]):
            return "duplicate workspace with name " + name
        found = next((item for item in state["types"] if item["type"] == kind), None)
        if found is None:
            return f"unknown instance type {kind}"
        if kind in state["no_capacity"]:
            return f"insufficient capacity for instance type {kind}"
        workspace = new_workspace(state, name, found)
        state["workspaces"].append(workspace)
    furnish(cloud, workspace)
    return ""


def new_workspace(state: dict[str, Any], name: str, found: dict[str, Any]) -> dict[str, Any]:
    """A workspace that is being deployed."""
    state["serial"] += 1
    return {
        "name": name,
        "id": f"ws{state['serial']:07d}",
        "org": state["active_org"],
        "status": "DEPLOYING",
        "health": "HEALTHY",
        "type": found["type"],
        "gpu": found["gpu_name"],
        "gpus": found["gpu_count"],
        "boot_polls": state["boot_polls"],
        "ssh_failures": state["ssh_failures"],
        "delete_polls": state["delete_polls"],
    }


def furnish(cloud: Cloud, workspace: dict[str, Any]) -> None:
    """Give an instance its directories and its tools."""
    top = cloud.instance_dir(workspace)
    for part in ("home", "tmp", "docker", "bin"):
        (top / part).mkdir(parents=True)
    for tool in (cloud.root / "tools").iterdir():
        (top / "bin" / tool.name).symlink_to(tool)
