"""Image references in the forms that pyxis, enroot and apptainer take."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from tao_run.errors import UsageError
from tao_run.platforms.references import split_reference

_HUB_SERVER = "registry-1.docker.io"
_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", _HUB_SERVER})
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Image(NamedTuple):
    """A container image reference: `registry` is empty for Docker Hub; `path` is set for a squashfs file."""

    registry: str = ""
    repository: str = ""
    tag: str = ""
    digest: str = ""
    path: str = ""


def parse_image(reference: str) -> Image:
    """Parts of `nvcr.io/nvidia/x:1`, `ubuntu:22.04`, `x@sha256:...`, `nvcr.io#nvidia/x:1`, `/lustre/x.sqsh`.

    Raises UsageError for what is no reference.
    """
    text = reference.strip().removeprefix("docker://")
    if text.startswith(("/", "./", "~/")) or text.endswith((".sqsh", ".squashfs", ".sif")):
        return Image(path=text)
    host, sign, rest = text.partition("#")  # enroot's own sign between registry and repository
    registry, repository, tag, digest = split_reference(f"{_HUB_SERVER}/{rest}" if sign else text)
    registry = host if sign else registry
    if not repository or repository != repository.lower() or " " in text:
        raise UsageError(f"{reference!r} is not an image reference", "write registry/name:tag, or a path to a .sqsh")
    return Image("" if registry in _DOCKER_HUB else registry, repository, tag, digest)


def pyxis_image(reference: str) -> str:
    """The reference for `srun --container-image`: `nvcr.io#nvidia/x:1`; a path stays a path.

    Enroot's grammar has no `@sha256:`: a digest goes where the tag goes (its manifest is fetched by that very name),
    with the registry and Docker Hub's `library/` spelled out, since `name@...` would be read as a user.
    Source: enroot 3.5, src/docker.sh, _parse_uri.
    """
    image = parse_image(reference)
    if image.path:
        return image.path
    if image.digest:
        return f"{image.registry or _HUB_SERVER}#{_hub_name(image)}:{image.digest}"
    tag = f":{image.tag}" if image.tag else ""
    return f"{image.registry}#{image.repository}{tag}" if image.registry else f"{image.repository}{tag}"


def enroot_uri(reference: str) -> str:
    """The URI for `enroot import`; a path stays a path."""
    image = pyxis_image(reference)
    return image if parse_image(reference).path else f"docker://{image}"


def apptainer_image(reference: str) -> str:
    """The URI for `apptainer exec`: Docker's own form; a path stays a path."""
    image = parse_image(reference)
    if image.path:
        return image.path
    name = f"{image.registry}/{image.repository}" if image.registry else image.repository
    suffix = f"@{image.digest}" if image.digest else (f":{image.tag}" if image.tag else "")
    return f"docker://{name}{suffix}"


def cache_name(reference: str) -> str:
    """A file name for the imported image: readable, and unique by a hash of the whole reference."""
    digest = hashlib.sha256(reference.encode()).hexdigest()[:10]
    return f"{_UNSAFE.sub('-', reference).strip('-.')[:80]}-{digest}.sqsh"


def _hub_name(image: Image) -> str:
    alone = not image.registry and "/" not in image.repository
    return f"library/{image.repository}" if alone else image.repository
