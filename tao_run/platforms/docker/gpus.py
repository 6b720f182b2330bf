"""Which GPUs a job gets: devices that no other job of ours on that daemon holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tao_run.errors import BackendRejected, UsageError
from tao_run.platforms.nvidia import Gpu

ALL = "all"
_MOST = 64  # more devices than a host has


@dataclass(frozen=True)
class GpuRequest:
    """What a job asks for: a number of devices, or these devices. `ids` may be ("all",)."""

    count: int = 0
    ids: tuple[str, ...] = ()
    share: bool = False

    @property
    def wanted(self) -> bool:
        return bool(self.count or self.ids)


def gpu_request(count: int | None, ids: Sequence[str] | None, share: bool) -> GpuRequest:
    """One consistent wish from `--gpus N` and `-o gpus=...`. Raises UsageError if they disagree."""
    if not ids:
        return GpuRequest(count or 0, (), share)
    if len(set(ids)) != len(ids):
        raise UsageError(f"gpus={','.join(ids)} names a device twice")
    if list(ids) == [ALL]:
        return GpuRequest(0, (ALL,), share)
    if ALL in ids:
        raise UsageError("gpus: give device ids or all, not both")
    if count not in (None, len(ids)):
        raise UsageError(
            f"gpus={','.join(ids)} are {len(ids)} devices, but {count} are asked for", f"--gpus {len(ids)}"
        )
    return GpuRequest(0, tuple(ids), share)


def choose(wish: GpuRequest, held: Mapping[str, str], known: Sequence[Gpu] = ()) -> tuple[str, ...]:
    """Device ids for a job. `held` maps devices to the job that holds them; `known` are the host's GPUs, if known.

    Without `known` the lowest free numbers are taken, and the engine refuses what is not there.
    Raises BackendRejected if too few are free: Docker has no queue to wait in.
    """
    held = {} if wish.share else {_number(gpu, known): job for gpu, job in held.items()}
    if wish.ids:
        mine = [_number(gpu, known) for gpu in wish.ids]
        if conflicts(mine, held):
            raise _too_few(f"GPU {', '.join(wish.ids)}", held)
        return wish.ids
    strange = [gpu for gpu in held if not gpu.isdecimal() and gpu != ALL]
    if strange:
        raise BackendRejected(
            f"cannot tell which GPUs are free: {held[strange[0]]} holds {strange[0]}", "name devices with -o gpus=0,1"
        )
    pool = [gpu.index for gpu in known] or [str(number) for number in range(_MOST)]
    free = [gpu for gpu in pool if not conflicts([gpu], held)]
    if len(free) < wish.count:
        raise _too_few(f"{wish.count} of {len(known) or 'the'} GPUs", held)
    return tuple(free[: wish.count])


def _number(gpu: str, known: Sequence[Gpu]) -> str:
    return next((one.index for one in known if gpu in (one.index, one.uuid)), gpu)


def _too_few(wanted: str, held: Mapping[str, str]) -> BackendRejected:
    who = ", ".join(f"{gpu} by {job}" for gpu, job in sorted(held.items()))
    return BackendRejected(
        f"cannot have {wanted}: {who or 'the host has no more'}" + (" (held)" if who else ""),
        "wait for that job or cancel it, name other devices with -o gpus=..., or share with -o share_gpus=true",
    )


def conflicts(mine: Sequence[str], held: Mapping[str, str]) -> bool:
    """Whether another job holds one of these devices."""
    return bool(held) and any(gpu in held or ALL in (gpu, *held) for gpu in mine)


def device_requests(ids: Sequence[str], count: int = 0) -> list[dict[str, Any]]:
    """HostConfig.DeviceRequests for device ids, for `all`, or (before they are chosen) for a number."""
    native: dict[str, Any] = {"Driver": "", "Capabilities": [["gpu"]]}
    if list(ids) == [ALL]:
        return [{**native, "Count": -1}]
    return [{**native, "DeviceIDs": list(ids)}] if ids else [{**native, "Count": count}]


def requested_devices(host_config: Mapping[str, Any]) -> tuple[str, ...]:
    """The devices that a container (inspect's HostConfig) was given."""
    found: list[str] = []
    for request in host_config.get("DeviceRequests") or []:
        if request.get("DeviceIDs"):
            found += [str(gpu) for gpu in request["DeviceIDs"]]
        elif request.get("Count") == -1:
            found.append(ALL)
    return tuple(found)


def cdi_gpus(info: Mapping[str, Any]) -> list[Gpu]:
    """The GPUs that the engine found through CDI (GET /info, DiscoveredDevices; Docker 28.2 and newer)."""
    names = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or []]
    numbers = [name.removeprefix("nvidia.com/gpu=") for name in names if name.startswith("nvidia.com/gpu=")]
    return [Gpu(number) for number in numbers if number.isdecimal()]
