"""Preflight checks of a daemon, and what can be asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tao_run.credentials import Credentials
from tao_run.errors import TaoRunError
from tao_run.jobs.model import Check, ResourceTable
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.gpus import cdi_gpus
from tao_run.platforms.docker.images import ImageReference
from tao_run.platforms.docker.launch import held_gpus, known_gpus
from tao_run.platforms.docker.pull import NGC_SECRET, has_image
from tao_run.platforms.docker.request import mounts_of, parse_options, results_root
from tao_run.platforms.nvidia import Gpu
from tao_run.platforms.references import is_ngc

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest

_TOOLKIT = "install nvidia-container-toolkit on the daemon's host and restart docker"


def checks(daemon: Daemon, request: JobRequest | None, credentials: Credentials) -> list[Check]:
    """Every check, also when one fails. Only a daemon that does not answer leaves the others out."""
    try:
        info = daemon.info
    except TaoRunError as error:
        return [Check("docker.daemon", "failed", error.message, error.hint)]
    engine = f"{info.get('Name')} runs engine {info.get('ServerVersion')}"
    found = [Check("docker.daemon", "ok", f"{daemon.endpoint}: {engine}")]
    if request is not None:
        found += [_gpus(daemon, request), _mounts(daemon, request), _image(daemon, request, credentials)]
    return found


def _gpus(daemon: Daemon, request: JobRequest) -> Check:
    options = parse_options(request)
    wanted = len(options.gpus or []) or request.gpus or 0
    if not wanted:
        return Check("docker.gpus", "skipped", "the job asks for no GPU")
    known = known_gpus(daemon)
    if not known and not _has_runtime(daemon):
        return Check("docker.gpus", "failed", "the engine knows no NVIDIA runtime", _TOOLKIT)
    if known and wanted > len(known):
        return Check("docker.gpus", "failed", f"{wanted} GPUs asked for, the host has {len(known)}", "lower --gpus")
    held = held_gpus(daemon)
    free = f", {sum(gpu.index not in held for gpu in known)} of {len(known)} free" if known else ""
    return Check("docker.gpus", "ok", f"the engine can give GPUs{free}")


def _has_runtime(daemon: Daemon) -> bool:
    return "nvidia" in (daemon.info.get("Runtimes") or {}) or bool(cdi_gpus(daemon.info))


def _mounts(daemon: Daemon, request: JobRequest) -> Check:
    try:
        mounts = mounts_of(request, parse_options(request), daemon.is_local)
    except TaoRunError as error:
        return Check("docker.mounts", "failed", error.message, error.hint)
    if not daemon.is_local:
        return Check("docker.mounts", "skipped", "the daemon's disk cannot be looked at from here")
    return Check("docker.mounts", "ok", f"{len(mounts)} mounts, all there") if mounts else _results(request)


def _results(request: JobRequest) -> Check:
    root = results_root(request, "", local=True)
    if not root.startswith("/"):
        return Check("docker.mounts", "skipped", "the job mounts nothing")
    place = next(path for path in (Path(root), *Path(root).parents) if path.exists())
    return Check("docker.mounts", "ok", f"results go to {root} (in {place})")


def _image(daemon: Daemon, request: JobRequest, credentials: Credentials) -> Check:
    if not request.image:
        return Check("docker.image", "skipped", "no image given")
    try:
        image = ImageReference.parse(request.image)
        there = has_image(daemon, image)
    except TaoRunError as error:
        return Check("docker.image", "failed", error.message, error.hint)
    if there:
        return Check("docker.image", "ok", f"{image} is on the engine")
    if parse_options(request).pull_policy == "never":
        return Check("docker.image", "failed", f"{image} is not there, pull_policy is never", f"docker pull {image}")
    if is_ngc(image.registry) and not credentials.has(NGC_SECRET):
        detail = f"{image} must be pulled and NGC_KEY is not set: only public images can be had"
        return Check("docker.image", "ok", detail, "set NGC_KEY for private images")
    return Check("docker.image", "ok", f"{image} will be pulled at launch")


def resources(daemon: Daemon) -> list[ResourceTable]:
    """The engine, and its GPUs with the jobs that hold them."""
    info = daemon.info
    engine = (
        str(info.get("Name", "")),
        str(info.get("ServerVersion", "")),
        str(info.get("NCPU", "")),
        str(int(info.get("MemTotal") or 0) // 2**20),
        ", ".join(sorted(info.get("Runtimes") or {})),
    )
    held = {gpu: job for gpu, (job, _) in held_gpus(daemon).items()}
    known = known_gpus(daemon)
    listed = {gpu.index for gpu in known} | {gpu.uuid for gpu in known}
    rows = [*known, *(Gpu(gpu) for gpu in sorted(held) if gpu not in listed)]
    title = "GPUs" if known else "GPUs that jobs hold (this engine does not tell which it has)"
    return [
        ResourceTable(f"Engine at {daemon.endpoint}", ("host", "version", "cpus", "memory_mb", "runtimes"), (engine,)),
        ResourceTable(title, ("id", "name", "memory_mb", "uuid", "job"), tuple(_row(gpu, held) for gpu in rows)),
    ]


def _row(gpu: Gpu, held: dict[str, str]) -> tuple[str, ...]:
    holder = held.get(gpu.index) or held.get(gpu.uuid) or held.get("all", "")
    return gpu.index, gpu.name, str(gpu.memory) if gpu.memory >= 0 else "", gpu.uuid, holder
