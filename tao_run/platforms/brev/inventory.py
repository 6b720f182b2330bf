"""Instances and instance types as `brev ls --json` and `brev search --json` print them, and the choice of a type."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tao_run.errors import BackendRejected, ProtocolError


@dataclass(frozen=True)
class Instance:
    """One instance. `status` is Brev's word, UNHEALTHY included; `org` is the organization it was listed in."""

    name: str
    id: str
    status: str
    health: str = ""
    type: str = ""
    gpu: str = ""
    org: str = ""


@dataclass(frozen=True)
class InstanceType:
    """One type that can be rented. Memory in GB, price in dollars an hour (None if it is not told)."""

    type: str
    gpu: str
    gpus: int
    gpu_memory: float
    provider: str
    price: float | None = None

    def describe(self) -> str:
        """One line for people."""
        price = "" if self.price is None else f", ${self.price:.2f} an hour"
        return f"{self.type} ({self.gpus} x {self.gpu} {self.gpu_memory:g} GB, {self.provider}{price})"


def parse_instances(text: str, org: str = "") -> list[Instance]:
    """Instances of an `ls --json`: `{"workspaces": [...] or null, "nodes": [...]}`, or a bare list.

    Raises ProtocolError if it is anything else.
    """
    data = _decode(text, "ls")
    if isinstance(data, dict) and "workspaces" not in data:
        raise ProtocolError("`brev ls --json` printed an object without `workspaces`", "is this brev v0.6.x?")
    rows = (data["workspaces"] if isinstance(data, dict) else data) or []
    return [_instance(row, org) for row in _rows(rows, "ls")]


def _instance(row: Mapping[str, Any], org: str) -> Instance:
    word = {key: str(row.get(key) or "").strip() for key in ("name", "id", "health_status", "instance_type", "gpu")}
    status = str(row.get("status") or "").strip().upper()
    return Instance(word["name"], word["id"], status, word["health_status"], word["instance_type"], word["gpu"], org)


def parse_orgs(text: str) -> list[str]:
    """Names of the organizations of `ls orgs --json`, the active one first."""
    rows = _rows(_decode(text, "ls orgs") or [], "ls orgs")
    return [str(row.get("name")) for row in sorted(rows, key=lambda row: not row.get("is_active"))]


def parse_types(text: str) -> list[InstanceType]:
    """Types of a `search --json`."""
    return [_type(row) for row in _rows(_decode(text, "search") or [], "search")]


def _type(row: Mapping[str, Any]) -> InstanceType:
    price = row.get("price_per_hour")
    return InstanceType(
        type=str(row.get("type") or ""),
        gpu=str(row.get("gpu_name") or ""),
        gpus=int(row.get("gpu_count") or 0),
        gpu_memory=float(row.get("vram_per_gpu_gb") or 0),
        provider=str(row.get("provider") or row.get("cloud") or ""),
        price=float(price) if isinstance(price, (int, float)) else None,
    )


def _decode(text: str, command: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        shown = " ".join(text.split())[:80]
        raise ProtocolError(f"`brev {command} --json` did not print JSON: {shown!r}") from None


def _rows(data: Any, command: str) -> list[Mapping[str, Any]]:
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise ProtocolError(f"`brev {command} --json` printed something other than a list of objects")
    return data


def choose_type(types: Sequence[InstanceType], wanted: str, gpus: int) -> InstanceType:
    """The cheapest type with exactly `gpus` GPUs whose name, or whose GPU's name, is `wanted`.

    Never more GPUs than asked and never another GPU. Raises BackendRejected listing what there is.
    """
    fitting = [item for item in types if _is(item, wanted) and item.gpus == gpus]
    if fitting:
        return min(fitting, key=lambda item: (item.price is None, item.price or 0.0, item.type))
    same = [item for item in types if _is(item, wanted)]
    if same:
        counts = ", ".join(str(count) for count in sorted({item.gpus for item in same}))
        raise BackendRejected(f"no Brev instance type {wanted} has {gpus} GPUs", f"it comes with {counts}: --gpus N")
    known = ", ".join(sorted({item.gpu for item in types if item.gpus == gpus and item.gpu}))
    offer = f"with {gpus} GPUs there are: {known}" if known else "`tao-run resources --platform brev` lists the types"
    raise BackendRejected(f"Brev offers no instance type or GPU {wanted!r}", offer)


def _is(item: InstanceType, wanted: str) -> bool:
    return wanted.casefold() in (item.type.casefold(), item.gpu.casefold())
