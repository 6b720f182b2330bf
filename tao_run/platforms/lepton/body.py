"""The job as Lepton takes it: a LeptonJob document from the request and what was chosen. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tao_run.errors import UsageError
from tao_run.jobs.model import Job
from tao_run.platforms.lepton.discovery import NodeGroup, Volume, choose_volume
from tao_run.platforms.lepton.labels import GROUP_LABEL, LABEL, SPLIT_LABEL

if TYPE_CHECKING:
    from tao_run.platforms.lepton.options import MountOption, Options

_RESERVED_ENV = "LEPTON_"
_NGC_HOST = re.compile(r"^([a-z0-9-]+\.)*nvcr\.io/")


@dataclass(frozen=True)
class Parts:
    """What a job body is made of besides the request. `secrets` maps a variable to a workspace secret."""

    image: str
    command: Sequence[str]
    shape: str
    group: NodeGroup
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mapping[str, Any]] = ()
    pull_secrets: Sequence[str] = ()


def job_body(job: Job, options: Options, parts: Parts) -> dict[str, Any]:
    """The body of `POST /jobs`, without nulls."""
    spec: dict[str, Any] = {
        "resource_shape": parts.shape,
        "container": {"image": parts.image, "command": list(parts.command)},
        "completions": job.nodes,
        "parallelism": job.nodes,
        "max_failure_retry": options.worker_retries,
        "max_job_failure_retry": options.job_retries,
        "envs": _envs(parts),
        "mounts": list(parts.mounts),
        "image_pull_secrets": list(parts.pull_secrets),
        "ttl_seconds_after_finished": options.ttl_seconds,
        "log": {"enable_collection": True, "save_termination_logs": True},
        **_optional(job, options, parts.group),
    }
    return {"metadata": {"id": job.name, "visibility": options.visibility, "labels": _labels(job)}, "spec": spec}


def _optional(job: Job, options: Options, group: NodeGroup) -> dict[str, Any]:
    affinity: dict[str, Any] = {"allowed_dedicated_node_groups": [group.id]} if group.id else {}
    if options.nodes_in_group:
        affinity["allowed_nodes_in_node_group"] = list(options.nodes_in_group)
    queue = {
        "priority_class": options.priority,
        "can_be_preempted": options.can_be_preempted,
        "can_preempt": options.can_preempt,
    }
    queue = {key: value for key, value in queue.items() if value is not None}
    found = {
        "affinity": affinity,
        "queue_config": queue,
        "reservation_config": {"reservation_id": options.reservation} if options.reservation else {},
        "shared_memory_size": options.shared_memory_mb,
        "intra_job_communication": job.nodes > 1 or None,
    }
    return {key: value for key, value in found.items() if value}


def _labels(job: Job) -> dict[str, str]:
    ours = {LABEL: job.id, GROUP_LABEL: job.group, SPLIT_LABEL: job.split_id}
    return {**job.request.labels, **{key: value for key, value in ours.items() if value is not None}}


def _envs(parts: Parts) -> list[dict[str, Any]]:
    for name in (*parts.env, *parts.secrets):
        if name.startswith(_RESERVED_ENV):
            raise UsageError(f"{name}: variables that begin with {_RESERVED_ENV} are Lepton's own", "rename it")
    plain = [{"name": name, "value": value} for name, value in parts.env.items() if name not in parts.secrets]
    secret = [{"name": name, "value_from": {"secret_name_ref": ref}} for name, ref in parts.secrets.items()]
    return [*plain, *secret]


def secret_name(job_id: str, credential: str) -> str:
    """What a credential is called among the workspace's secrets, for one job."""
    return f"{secret_prefix(job_id)}{credential}"


def secret_prefix(job_id: str) -> str:
    """How the names of one job's workspace secrets begin."""
    return f"TAO_RUN_{job_id}_"


def pull_secret_name(job_id: str) -> str:
    """The job's own image pull secret: made from the NGC_KEY of whoever submits, so it is never a stale one."""
    return f"tao-run-{job_id}"


def is_ngc_image(image: str) -> bool:
    """Whether the image lies in NVIDIA's registry, where NGC_KEY logs in."""
    return bool(_NGC_HOST.match(image))


def volume_mount(volume: Volume, path: str, mount_path: str = "", read_only: bool = False) -> dict[str, Any]:
    """A mount of a volume's path, at `/mnt/<volume>` if not said otherwise."""
    mount: dict[str, Any] = {"path": path, "from": volume.source, "mount_path": mount_path or f"/mnt/{volume.name}"}
    if read_only:
        mount["mount_options"] = {"read_only": True}
    return mount


def extra_mount(option: MountOption, group: NodeGroup) -> dict[str, Any]:
    """A mount of the `mounts` option; its volume is named as the group does, or in Lepton's own form `node-...`."""
    if option.source.startswith("node-"):
        mount = {"path": option.path, "from": option.source, "mount_path": option.mount_path}
        return {**mount, **({"mount_options": {"read_only": True}} if option.read_only else {})}
    volume = choose_volume(group, option.source)
    if volume is None:
        raise UsageError(f"{group} has no volume {option.source!r}", "`tao-run resources` lists the volumes")
    return volume_mount(volume, option.path, option.mount_path, option.read_only)
