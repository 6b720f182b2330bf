"""The options of the docker platform (`-o key=value`, `options.docker` of a job file)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from tao_run.jobs.commas import comma_parts
from tao_run.jobs.request import Strict

_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b)?", re.IGNORECASE)


def parse_size(value: Any) -> Any:
    """Bytes from `16g`, `512MiB` or a number. Raises ValueError."""
    if value is None or isinstance(value, int):
        return value
    found = _SIZE.fullmatch(str(value).strip())
    if found is None:
        raise ValueError(f"{value!r} is no size: write 512m, 16g or a number of bytes")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def _words(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return [str(value)]
    if isinstance(value, str):
        return comma_parts(value)
    return [str(word) for word in value] if isinstance(value, (list, tuple)) else value


def _mounts(value: Any) -> Any:
    """One mount, or several separated by commas; a comma inside the modes (`a:/b:ro,z`) belongs to its mount."""
    return re.split(r",(?=[^,]*:)", value) if isinstance(value, str) else value


def _limits(value: Any) -> Any:
    """`memlock=-1,nofile=1024:2048` or a mapping, to name -> (soft, hard)."""
    if isinstance(value, str):
        value = dict(word.partition("=")[::2] for word in comma_parts(value))
    if not isinstance(value, Mapping):
        return value
    return {str(name): _limit(str(name), limit) for name, limit in value.items()}


def _limit(name: str, limit: Any) -> tuple[int, int]:
    parts = limit if isinstance(limit, (list, tuple)) else str(limit).split(":")
    try:
        soft, hard = int(parts[0]), int(parts[-1])
    except (ValueError, IndexError):
        raise ValueError(f"{name}={limit!r} is no limit: write {name}=SOFT:HARD or {name}=BOTH") from None
    return soft, hard


Size = Annotated[int, BeforeValidator(parse_size)]
Words = Annotated[list[str], BeforeValidator(_words)]
Limits = Annotated[dict[str, tuple[int, int]], BeforeValidator(_limits)]


class Options(Strict):
    """What only Docker knows."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, coerce_numbers_to_str=True)

    host: str | None = Field(None, description="the daemon: unix://, tcp:// or ssh://; default DOCKER_HOST or context")
    gpus: Words | None = Field(
        None,
        description="device ids (0,2 or GPU-uuid) or all; default: free ones are chosen for --gpus N",
        validation_alias=AliasChoices("gpus", "gpu_ids"),
    )
    share_gpus: bool = Field(False, description="allow devices that another tao-run job holds")
    shm_size: Size = Field(16 * 1024**3, description="size limit of /dev/shm; default 16g")
    network: str | None = Field(None, description="network: host, none, bridge or a name; default DOCKER_NETWORK")
    ipc: str | None = Field(None, description="IPC namespace: host, private, shareable or container:NAME")
    pull_policy: Literal["missing", "always", "never"] | None = Field(
        None, description="when the image is pulled; default DOCKER_PULL_POLICY, else missing"
    )
    mounts: Annotated[list[str], BeforeValidator(_mounts)] = Field(
        default_factory=list, description="SOURCE:TARGET[:ro], the source on the daemon's host or a volume"
    )
    ulimits: Limits | None = Field(
        None, description="NAME=SOFT:HARD,...; default for GPU jobs memlock=-1,stack=67108864"
    )
    user: str = Field(
        "auto", description="UID[:GID], a name, image, or auto: you, if the container writes to this machine's disk"
    )
    groups: Words = Field(default_factory=list, description="further groups of the user in the container")
    memory: Size | None = Field(None, description="memory limit, such as 64g")
    cpus: float | None = Field(None, gt=0, description="CPU limit, such as 8 or 1.5")
    devices: Words = Field(default_factory=list, description="host devices, such as /dev/infiniband/uverbs0")
    runtime: str | None = Field(None, description="container runtime; nvidia on Jetson")
    init: bool = Field(True, description="run the engine's small init as process 1: signals and orphans are handled")
    tty: bool = Field(False, description="give the command a terminal (stdout and stderr become one)")
    keep_entrypoint: bool = Field(False, description="run the command through the image's own entrypoint")
    stop_seconds: int = Field(30, ge=0, le=3600, description="time to end after cancel before it is killed")
    registry_user: str | None = Field(None, description="user for the image's registry; default $oauthtoken")
    registry_secret: str | None = Field(
        None, description="name of the credential for the image's registry; default NGC_KEY for nvcr.io"
    )
