"""Platform options with a name of their own on the command line, each in its platform's help group."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from tao_run.errors import UsageError
from tao_run.platforms.registry import canonical, names, platform_class


def _of(platform: str, name: str, help_text: str) -> Any:
    return typer.Option(name, help=help_text, rich_help_panel=f"Platform {platform}")


ResourceShape = Annotated[str | None, _of("lepton", "--resource-shape", "GPU shape, like gpu.8xh100-sxm.")]
NodeGroup = Annotated[str | None, _of("lepton", "--node-group", "Node group, by name or id.")]
Reservation = Annotated[str | None, _of("lepton", "--reservation", "Reservation to use (also slurm).")]
Priority = Annotated[str | None, _of("lepton", "--priority", "Priority class, like mid-4000.")]
Partition = Annotated[str | None, _of("slurm", "--partition", "Partition.")]
AccountName = Annotated[str | None, _of("slurm", "--account", "Account that is charged.")]
Qos = Annotated[str | None, _of("slurm", "--qos", "Quality of service.")]
ContainerMounts = Annotated[str | None, _of("slurm", "--container-mounts", "SRC:DST[,SRC:DST].")]
Namespace = Annotated[str | None, _of("kubernetes", "--namespace", "Namespace.")]
Context = Annotated[str | None, _of("kubernetes", "--context", "Context of the kubeconfig.")]
NodeSelector = Annotated[str | None, _of("kubernetes", "--node-selector", "K=V[,K=V].")]
Queue = Annotated[str | None, _of("kubernetes", "--queue", "Kueue queue.")]
Pvc = Annotated[str | None, _of("kubernetes", "--pvc", "Claim to mount: NAME:PATH.")]
GpuIds = Annotated[str | None, _of("docker", "--gpu-ids", "Use these GPUs (also local).")]
ShmSize = Annotated[str | None, _of("docker", "--shm-size", "Size of /dev/shm, like 16g (also kubernetes).")]
Network = Annotated[str | None, _of("docker", "--network", "Network of the container.")]
PullPolicy = Annotated[str | None, _of("docker", "--pull-policy", "missing, always or never.")]
Instance = Annotated[str | None, _of("brev", "--instance", "Use this instance.")]
GpuType = Annotated[str | None, _of("brev", "--gpu-type", "Rent an instance with this GPU.")]
KeepInstance = Annotated[bool | None, _of("brev", "--keep-instance", "Keep the rented instance; it costs money.")]


_NAMED = (
    "resource_shape", "node_group", "reservation", "priority", "partition", "account", "qos", "container_mounts",
    "namespace", "context", "node_selector", "queue", "pvc", "gpu_ids", "shm_size", "network", "pull_policy",
    "instance", "gpu_type", "keep_instance",
)  # fmt: skip


def named(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options with a name of their own, as the command line gave them."""
    return {key: given[key] for key in _NAMED}


# where a platform has another word for the same thing
_OWN_WORDS = {("docker", "gpu_ids"): "gpus", ("kubernetes", "shm_size"): "shm"}


def collect(platform: str, pairs: Sequence[str], named: Mapping[str, Any]) -> dict[str, Any]:
    """The option block of a platform from `-o key=value` pairs and named options.

    Raises UsageError for an option that the platform does not have, listing those it has.
    """
    block: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise UsageError(f"-o {pair}: no value", "write -o key=value")
        block[key.strip().replace("-", "_")] = _value(value)
    for key, said in named.items():
        if said is not None:
            block[_OWN_WORDS.get((platform, key), key)] = said
    _check_names(platform, block)
    return block


def _value(text: str) -> Any:
    """A YAML value where it is a list, a map, a number or a truth value; everything else as written."""
    from tao_run.yamltext import load_value

    value = load_value(text)
    return value if isinstance(value, (bool, list, dict)) else text


def _check_names(platform: str, block: Mapping[str, Any]) -> None:
    known = list(platform_class(platform).options_model().model_fields)
    for key in block:
        if key in known:
            continue
        near = difflib.get_close_matches(key, known, n=1)
        others = [name for name in names() if name != canonical(platform) and _has(name, key)]
        hint = f"did you mean {near[0]}?" if near else f"it is an option of {', '.join(others)}" if others else ""
        raise UsageError(f"platform {platform} has no option {key!r}; it has {', '.join(known)}", hint)


def _has(platform: str, key: str) -> bool:
    return key in platform_class(platform).options_model().model_fields
