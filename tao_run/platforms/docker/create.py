"""The body of POST /containers/create for a job: pure data, no secret value in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tao_run.jobs.model import Job
from tao_run.platforms.docker.gpus import ALL, GpuRequest, device_requests
from tao_run.platforms.docker.images import ImageReference
from tao_run.platforms.docker.mounts import Mount, to_host_config
from tao_run.platforms.docker.options import Options

LABEL_ID = "tao-run.job-id"
LABEL_NAME = "tao-run.job-name"
LABEL_GPUS = "tao-run.gpus"
#: what is copied into the container before it starts; the only writable place of ours in it
STAGE = "/.tao-run"
SECRETS_FILE = f"{STAGE}/env"
PAYLOAD_FILE = f"{STAGE}/payload"
HOME = f"{STAGE}/home"
# NVIDIA's advice for its containers (NGC user guide): locked memory for RDMA, 64 MiB of stack
_GPU_LIMITS = {"memlock": (-1, -1), "stack": (67108864, 67108864)}
_LOST = "tao-run: the credentials of this job are used up: it was started a second time. Submit it again."


@dataclass(frozen=True)
class Plan:
    """All that the body is built from."""

    job: Job
    options: Options
    image: ImageReference
    script: str
    env: Mapping[str, str] = field(default_factory=dict)
    has_secrets: bool = False
    has_payload: bool = False
    mounts: Sequence[Mount] = ()
    binds: Sequence[Mount] = ()
    gpus: GpuRequest = field(default_factory=GpuRequest)
    user: str | None = None
    network: str | None = None


def container_body(plan: Plan) -> dict[str, Any]:
    """The container as the Engine API (1.41) wants it."""
    options = plan.options
    body: dict[str, Any] = {
        "Image": str(plan.image),
        **_command(plan),
        "Env": [f"{name}={value}" for name, value in _environment(plan).items()],
        "Labels": _labels(plan),
        "Tty": options.tty,
        "StopTimeout": options.stop_seconds,
        "HostConfig": _host_config(plan),
    }
    if plan.user:
        body["User"] = plan.user
    return body


def _command(plan: Plan) -> dict[str, Any]:
    """The script is an argument of its own: bash gets what the user typed, line numbers and all."""
    steps = []
    if plan.has_secrets:
        # The file is gone before the first word of the command runs.
        steps.append(f"[ -r {SECRETS_FILE} ] || {{ echo '{_LOST}' >&2; exit 1; }}")
        steps.append(f". {SECRETS_FILE} && rm -f {SECRETS_FILE} || exit 1")
    limit = plan.job.request.max_time
    timed = f"timeout -k {plan.options.stop_seconds or 1} {limit} " if limit else ""
    steps.append(f'exec {timed}/bin/bash -c "$0"')
    bash = ["/bin/bash", "-c"]
    words = ["; ".join(steps), plan.script]
    return {"Cmd": bash + words} if plan.options.keep_entrypoint else {"Entrypoint": bash, "Cmd": words}


def _environment(plan: Plan) -> dict[str, str]:
    env = dict(plan.env)
    if plan.has_payload:
        env["TAO_RUN_PAYLOAD"] = PAYLOAD_FILE
    if plan.user and plan.user.split(":")[0].isdecimal():
        # A user without an entry in the image's /etc/passwd: libraries ask for these.
        env = {"HOME": HOME, "USER": "tao", "LOGNAME": "tao", **env}
    env.update(_gpu_environment(plan.gpus, plan.options.runtime))
    return env


def _gpu_environment(gpus: GpuRequest, runtime: str | None) -> dict[str, str]:
    if not gpus.wanted:
        # Images of NVIDIA ask for all devices; with nvidia as default runtime they would get them.
        return {"NVIDIA_VISIBLE_DEVICES": "void"}
    if runtime == "nvidia":
        return {"NVIDIA_VISIBLE_DEVICES": ",".join(gpus.ids) or ALL}
    return {}


def _labels(plan: Plan) -> dict[str, str]:
    ours = {LABEL_ID: plan.job.id, LABEL_NAME: plan.job.name}
    if plan.gpus.ids:
        ours[LABEL_GPUS] = ",".join(plan.gpus.ids)
    return {**plan.job.request.labels, **ours}


def _host_config(plan: Plan) -> dict[str, Any]:
    options = plan.options
    host: dict[str, Any] = {
        "ShmSize": options.shm_size,
        "Ulimits": _ulimits(plan),
        "NetworkMode": plan.network,
        "IpcMode": options.ipc,
        "GroupAdd": options.groups,
        "Memory": options.memory,
        "NanoCpus": int(options.cpus * 1_000_000_000) if options.cpus else None,
        "Runtime": options.runtime,
        "Init": options.init or None,
        "Devices": [_device(path) for path in options.devices],
        **to_host_config(plan.mounts),
    }
    if options.ipc and options.ipc != "private":
        del host["ShmSize"]  # the other namespace's /dev/shm is used
    host["Binds"] = [*host.get("Binds", []), *(mount.to_bind() for mount in plan.binds)]
    if plan.gpus.wanted and options.runtime != "nvidia":
        host["DeviceRequests"] = device_requests(plan.gpus.ids, plan.gpus.count)
    return {name: value for name, value in host.items() if value not in (None, [], {})}


def _ulimits(plan: Plan) -> list[dict[str, Any]]:
    limits = plan.options.ulimits
    if limits is None:
        limits = _GPU_LIMITS if plan.gpus.wanted else {}
    return [{"Name": name, "Soft": soft, "Hard": hard} for name, (soft, hard) in limits.items()]


def _device(path: str) -> dict[str, str]:
    host, _, inside = path.partition(":")
    return {"PathOnHost": host, "PathInContainer": inside or host, "CgroupPermissions": "rwm"}
