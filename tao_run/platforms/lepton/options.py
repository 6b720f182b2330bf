"""The options of the platform lepton (`-o key=value`, `options.lepton` in a job file)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from tao_run.jobs.commas import listed

_PRIORITY = re.compile(r"(low-[1-3]000|mid-[4-6]000|high-[7-9]000)")
_PRIORITY_WORDS = {"l": "low-1000", "low": "low-1000", "m": "mid-4000", "mid": "mid-4000", "medium": "mid-4000"}
_PRIORITY_WORDS |= {"h": "high-7000", "high": "high-7000"}
_PRIORITY_WORDS |= {str(n): f"{('low', 'mid', 'high')[(n - 1) // 3]}-{n}000" for n in range(1, 10)}


class MountOption(BaseModel):
    """One more mount: a path of a volume of the node group, and where it is seen in the container."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    source: str = Field(validation_alias=AliasChoices("from", "from_"))
    path: str = "/"
    mount_path: str
    read_only: bool = False


def _as_mount(value: Any) -> Any:
    """`VOLUME:PATH:MOUNT_PATH[:ro]`, an object of leptonai, or plain data."""
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, exclude_none=True)
    if not isinstance(value, str):
        return value
    parts = value.split(":")
    if len(parts) not in (3, 4) or (len(parts) == 4 and parts[3] not in ("ro", "rw")):
        raise ValueError(f"{value!r} is not VOLUME:PATH:MOUNT_PATH[:ro]")
    return {"from": parts[0], "path": parts[1] or "/", "mount_path": parts[2], "read_only": parts[3:] == ["ro"]}


def _as_mounts(value: Any) -> Any:
    parts = listed(value)
    return [_as_mount(item) for item in parts] if isinstance(parts, (list, tuple)) else parts


Names = Annotated[tuple[str, ...], BeforeValidator(listed)]
Mounts = Annotated[tuple[MountOption, ...], BeforeValidator(_as_mounts)]


class Options(BaseModel):
    """What can be said of a Lepton job beyond the platform-neutral request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workspace: str | None = Field(None, description="workspace id (default: LEPTON_WORKSPACE_ID)")
    api_url: str | None = Field(None, description="API address: a workspace base or a gateway")
    resource_shape: str | None = Field(None, description="shape id, as `tao-run resources` lists it")
    node_group: str | None = Field(None, description="dedicated node group, by name or id; none: shared capacity")
    nodes_in_group: Names = Field((), description="only on these nodes of the group")
    storage_user: str | None = Field(None, description="your name or e-mail address in the storage permissions")
    mounts: Mounts = Field((), description="more mounts: VOLUME:PATH:MOUNT_PATH[:ro], comma-separated")
    reservation: str | None = Field(None, description="id of a reservation of the node group")
    priority: str | None = Field(None, description="low, mid, high, 1..9, or a class such as mid-4000")
    can_be_preempted: bool | None = Field(None, description="may make room for jobs of higher priority")
    can_preempt: bool | None = Field(None, description="may push out jobs of lower priority")
    shared_memory_mb: int | None = Field(None, ge=1, description="/dev/shm in MiB (default: by the shape)")
    image_pull_secrets: Names = Field((), description="existing pull secrets of the workspace")
    ttl_seconds: int = Field(259_200, ge=0, description="how long an ended job stays before it is archived")
    worker_retries: int = Field(0, ge=0, description="how often Lepton restarts a failed worker")
    job_retries: int = Field(0, ge=0, description="how often Lepton restarts the whole job")
    visibility: str = Field("private", pattern="^(private|public)$", description="private or public")

    @field_validator("priority")
    @classmethod
    def _priority_class(cls, value: str | None) -> str | None:
        if value is None:
            return None
        wanted = _PRIORITY_WORDS.get(value.lower(), value.lower())
        if not _PRIORITY.fullmatch(wanted):
            raise ValueError("low, mid, high, 1..9, or a class from low-1000 to high-9000")
        return wanted
