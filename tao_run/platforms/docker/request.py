"""From a request to a plan: where it runs, what is mounted, who it runs as. Contacts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tao_run.errors import UsageError
from tao_run.platforms.docker.endpoint import check_endpoint, default_endpoint
from tao_run.platforms.docker.mounts import Mount, check_mounts, parse_mount
from tao_run.platforms.docker.options import Options
from tao_run.userpaths import own_path

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest

RESULTS = "/results"


def parse_options(request: JobRequest) -> Options:
    """The option block of a request. Raises UsageError."""
    from tao_run.jobs.request import parse_model

    return parse_model(Options, dict(request.options.get("docker", {})), "options of platform docker")


def endpoint_of(request: JobRequest | None, environ: Mapping[str, str]) -> str:
    """The daemon of a request: its option `host`, else what Docker's own client would use."""
    host = parse_options(request).host if request else None
    return check_endpoint(host) if host else default_endpoint(environ)


def results_root(request: JobRequest, bucket: str, local: bool) -> str:
    """Where results go: a URI, a directory on the daemon's host, or empty if nowhere durable."""
    wanted = request.results or (f"s3://{bucket}/results" if bucket else "")
    if not wanted or "://" in wanted:
        return wanted.rstrip("/")
    if not local and not wanted.startswith("/"):
        raise UsageError(f"results {wanted!r}: the daemon runs on another host", "give an absolute path on that host")
    return str(own_path(wanted)) if local else wanted.rstrip("/")


def mounts_of(request: JobRequest, options: Options, local: bool) -> list[Mount]:
    """The mounts a request asks for, checked. Raises UsageError."""
    mounts = [parse_mount(text, local) for text in (*options.mounts, *_shared(request))]
    check_mounts(mounts, local)
    return mounts


def _shared(request: JobRequest) -> list[str]:
    """The shared mount of a request as a mount: a path of the daemon's host, at the same place unless it says where."""
    if not request.mount:
        return []
    return [request.mount if ":" in request.mount else f"{request.mount}:{request.mount}"]


def shared_mount(request: JobRequest, local: bool) -> str | None:
    """Where in the container the shared mount is, if the request has one."""
    return next((parse_mount(text, local).target for text in _shared(request)), None)


def absolute_mount(text: str, local: bool) -> str:
    """A mount with its source as it is meant here and now, so that a retry from elsewhere means the same."""
    source, colon, rest = text.partition(":")
    here = local and source.startswith((".", "~"))
    return f"{parse_mount(text, local).source if here else source}{colon}{rest}"


def results_mount(root: str, mounts: list[Mount]) -> Mount | None:
    """The bind that puts a results directory under /results, unless the user mounts something there."""
    if not root.startswith("/"):
        return None
    if any(mount.target == RESULTS for mount in mounts):
        raise UsageError(f"a mount has the target {RESULTS}, where the results of {root} go", "use another target")
    return Mount(root, RESULTS)


def user_of(options: Options, local: bool, writes: bool) -> str | None:
    """Who the container runs as: None is the image's own user.

    `auto` is the caller where the container writes to this machine's disk, so that results belong to who asked.
    """
    if options.user == "image":
        return None
    if options.user != "auto":
        return options.user
    if not (local and writes) or not hasattr(os, "getuid") or os.getuid() == 0:
        return None
    return f"{os.getuid()}:{os.getgid()}"
