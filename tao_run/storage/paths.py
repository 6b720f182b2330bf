"""check_path and list_path: what is at a URI or path, as seen from this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tao_run.errors import PermissionRefused, UsageError
from tao_run.storage.s3 import S3Store
from tao_run.storage.uris import Location, parse_location

if TYPE_CHECKING:
    from tao_run.credentials import Credentials


@dataclass(frozen=True)
class PathState:
    """Whether there is something at a path."""

    path: str
    exists: bool


@dataclass(frozen=True)
class PathStates:
    """The answer to `paths check`."""

    paths: tuple[PathState, ...]


@dataclass(frozen=True)
class PathListing:
    """What lies directly below each path asked for, in full."""

    entries: tuple[str, ...]


def check_path(path: str, credentials: Credentials, store: S3Store | None = None) -> bool:
    """Whether there is something at an s3:// URI or at a path of this machine.

    `s3://b/foo` is the object `foo` or what is below `foo/`; `foobar` proves nothing.

    Raises:
        UsageError: not a path that this machine can look at.
        CredentialError: access is refused, which does not mean that nothing is there.
        BackendUnreachable: the store does not answer.
    """
    location = _visible(path)
    if location.is_s3:
        return (store or S3Store(credentials)).find(location).exists
    return _local_exists(location)


def list_path(path: str, credentials: Credentials, store: S3Store | None = None) -> list[str]:
    """Full paths or URIs directly below `path`, sorted; folders end in a slash. Raises as `check_path` does."""
    location = _visible(path)
    if location.is_s3:
        return list((store or S3Store(credentials)).list(location))
    return _local_list(location)


def _visible(path: str) -> Location:
    location = parse_location(path)
    if not (location.is_s3 or location.is_file):
        raise UsageError(
            f"{path}: what is at a {location.scheme}:// address is only seen when the job fetches it",
            "check s3:// URIs and absolute paths",
        )
    return location


def _local_exists(location: Location) -> bool:
    try:
        Path(location.path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        raise PermissionRefused(f"this user may not look at {location.path}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot look at {location.path!r}: {error}") from None
    return True


def _local_list(location: Location) -> list[str]:
    target = Path(location.path)
    if not _local_exists(location):
        return []
    if not target.is_dir():
        return [str(target)]
    try:
        return sorted(f"{entry}/" if entry.is_dir() else str(entry) for entry in target.iterdir())
    except PermissionError:
        raise PermissionRefused(f"this user may not list {target}") from None
