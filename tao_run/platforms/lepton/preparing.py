"""From a request to the LeptonJob that is sent: what must be discovered is, everything else is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tao_run.errors import UsageError
from tao_run.jobs.model import Job
from tao_run.platforms.base import Launch
from tao_run.platforms.lepton import body
from tao_run.platforms.lepton.bootstrap import Around, container_command, payload_variables
from tao_run.platforms.lepton.discovery import (
    NodeGroup,
    Volume,
    allowed_prefixes,
    choose_shape,
    choose_volume,
    owned_by_user,
)
from tao_run.platforms.lepton.ends import mark
from tao_run.platforms.lepton.workspace import Workspace, both
from tao_run.storage.mounts import within

if TYPE_CHECKING:
    from tao_run.credentials import Credentials
    from tao_run.entrypoint import Entry
    from tao_run.jobs.request import JobRequest
    from tao_run.platforms.lepton.options import Options

_DEFAULT_GPUS = 1


@dataclass(frozen=True)
class Place:
    """Where a job runs: node group, shape, and the shared mount if there is one. `notes` are for the user."""

    group: NodeGroup
    shape: str
    mount: Mapping[str, Any] | None
    notes: tuple[str, ...] = ()

    @property
    def mount_path(self) -> str | None:
        """The shared mount in the container."""
        return None if self.mount is None else str(self.mount["mount_path"])

    @property
    def results_root(self) -> str:
        """Where results go that were given no other place; empty without a mount."""
        return f"{self.mount_path}/results" if self.mount_path else ""


def find_place(workspace: Workspace, request: JobRequest, options: Options, user: str) -> Place:
    """Discover in at most three requests, the last two at the same time. Raises UsageError listing what there is."""
    group = workspace.group(options.node_group)
    shape, (mount, notes) = both(
        lambda: _shape(workspace, group, request, options),
        lambda: _shared_mount(workspace, group, request, user),
    )
    return Place(group, shape, mount, notes)


def _shape(workspace: Workspace, group: NodeGroup, request: JobRequest, options: Options) -> str:
    if options.resource_shape:
        return options.resource_shape
    gpus = _DEFAULT_GPUS if request.gpus is None else request.gpus
    return choose_shape(workspace.shapes(group), gpus, group)


def _shared_mount(
    workspace: Workspace, group: NodeGroup, request: JobRequest, user: str
) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    """The mount that `request.mount` asks for, or the one found; and why there is none."""
    if request.mount is False:
        return None, ()
    wanted = _parse_mount(request.mount or "")
    volume = choose_volume(group, wanted.volume)
    if volume is None:
        if request.mount:
            raise UsageError(f"{group} has no shared volume to mount", "name a node group that has one, or --no-mount")
        return None, ()
    rules = workspace.permissions(volume.name, group)
    path = _allowed_path(rules, volume, wanted.path, user, explicit=bool(request.mount))
    if path is None:
        hint = "say who you are in the storage permissions (-o storage_user=you@example.com)"
        return None, (f"volume {volume.name} is not mounted: no path of it is known to be yours; {hint}",)
    return body.volume_mount(volume, path, wanted.mount_path), ()


@dataclass(frozen=True)
class _Wanted:
    volume: str = ""
    path: str = ""
    mount_path: str = ""


def _parse_mount(text: str) -> _Wanted:
    """`VOLUME[:PATH[:MOUNT_PATH]]`, or just the `/mount/path` for the volume that is found."""
    if text.startswith("/"):
        return _Wanted(mount_path=text)
    parts = text.split(":")
    if len(parts) > 3 or any(part and not part.startswith("/") for part in parts[1:]):
        raise UsageError(f"mount {text!r} cannot be read", "write VOLUME, VOLUME:/path or VOLUME:/path:/mount/path")
    return _Wanted(*parts)


def _allowed_path(rules: list[dict[str, Any]], volume: Volume, path: str, user: str, *, explicit: bool) -> str | None:
    prefixes = allowed_prefixes(rules, user)
    personal = owned_by_user(rules)
    if path:
        known = prefixes if user else [*prefixes, *personal]
        if _below(path, known):
            return path
        listed = ", ".join(prefixes) or "none"
        raise UsageError(f"{path} of volume {volume.name} may not be mounted by you", f"allowed: {listed}")
    if prefixes and (user or not personal):
        return prefixes[0]
    if explicit:
        raise UsageError(
            f"no path of volume {volume.name} is known to be yours",
            "say who you are (-o storage_user=you@example.com) or name the path (--mount VOLUME:/path)",
        )
    return None


def _below(path: str, roots: Iterable[str]) -> bool:
    return any(within(path, root) for root in roots)


# -- the launch ------------------------------------------------------------------------------------------------


def build_launch(job: Job, options: Options, place: Place, credentials: Credentials, results_root: str) -> Launch:
    """The launch of a job in its place; of credentials only presence is read. Raises UsageError."""
    request = job.request
    if not request.image:
        raise UsageError("Lepton runs containers: the job needs an image", "give --image, or --model and --action")
    from tao_run.entrypoint import entry_for

    job = replace(job, results_dir=job.results_dir or f"{results_root}/{job.id}" if results_root else job.results_dir)
    root = results_root or None
    entry = entry_for(job, mount=place.mount_path, results_root=root, credentials=credentials)
    ngc_key = credentials.has("NGC_KEY")
    pull = ngc_key and body.is_ngc_image(request.image)
    native = body.job_body(job, options, _parts(job, options, place, entry, pull))
    notes = (*place.notes, *_notes(job, native, ngc_key))
    return Launch(job, native, entry.secrets, None, notes, extra=pull)


def _parts(job: Job, options: Options, place: Place, entry: Entry, pull: bool) -> body.Parts:
    request = job.request
    payload = _payload(entry.payload)
    gpus = request.gpus if request.gpus is not None or options.resource_shape else _DEFAULT_GPUS
    around = Around(mark(job.id), gpus, len(payload), request.max_time)
    mounts = [place.mount] if place.mount is not None else []
    return body.Parts(
        image=request.image or "",
        command=container_command(entry.script, around),
        shape=place.shape,
        group=place.group,
        env={"WORLD_SIZE": str(job.nodes), "NUM_GPU_PER_NODE": str(gpus or 0), **entry.env, **payload},
        secrets={name: body.secret_name(job.id, source) for name, source in entry.secrets.items()},
        mounts=[*mounts, *(body.extra_mount(item, place.group) for item in options.mounts)],
        pull_secrets=[*options.image_pull_secrets, *([body.pull_secret_name(job.id)] if pull else [])],
    )


def _payload(payload: bytes | None) -> dict[str, str]:
    if payload is None:
        return {}
    try:
        return payload_variables(payload)
    except ValueError as error:
        raise UsageError(f"the job's spec is too large for Lepton: {error}", "move data out of the spec") from None


def _notes(job: Job, native: Mapping[str, Any], ngc_key: bool) -> list[str]:
    notes = []
    spec = native["spec"]
    if job.nodes > 1 and "affinity" not in spec:
        notes.append(
            f"{job.nodes} nodes on shared capacity: they may lie far apart, and losing one fails the job;"
            " a dedicated group (-o node_group=...) keeps them together"
        )
    if not job.results_dir:
        notes.append("the results have no durable place: give --results, S3_BUCKET_NAME, or a node group with storage")
    elif job.results_dir.startswith("/") and not _below(
        job.results_dir, [mount["mount_path"] for mount in spec["mounts"]]
    ):
        notes.append(f"{job.results_dir} lies on no mount: the results are lost when the job ends")
    if body.is_ngc_image(job.request.image or "") and not ngc_key:
        notes.append("NGC_KEY is not set: the image can only be pulled if it is public")
    return notes
