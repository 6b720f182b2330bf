"""Files that are copied into a container before it starts: secrets, a large runner, a home directory."""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Mapping
from typing import Any

from tao_run.errors import BackendRejected, NotFound
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.create import HOME, PAYLOAD_FILE, SECRETS_FILE, STAGE

_PASSWD_LIMIT = 1 << 20


def secrets_file(values: Mapping[str, str]) -> bytes:
    """Text that a shell reads: every value arrives as it is, newlines and quotes included."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items()).encode("utf-8")


def archive(files: Mapping[str, bytes], uid: int, gid: int) -> bytes:
    """A tar of our directory for the root of a container, readable by its user alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in (STAGE, HOME):
            tar.addfile(_entry(path, 0o700, uid, gid, tarfile.DIRTYPE))
        for path, data in files.items():
            entry = _entry(path, 0o600, uid, gid, tarfile.REGTYPE)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        end = tar.offset + 2 * tarfile.BLOCKSIZE
    return buffer.getvalue()[:end]  # no padding: Podman's reader stops at the end mark, and the rest breaks its pipe


def _entry(path: str, mode: int, uid: int, gid: int, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.mode, entry.uid, entry.gid, entry.type = mode, uid, gid, kind
    return entry


def stage(daemon: Daemon, container: str, secrets: Mapping[str, str], payload: bytes | None, user: str) -> None:
    """Copy what the job needs into a created container. `user` is its user as inspect tells (empty: root)."""
    files = {SECRETS_FILE: secrets_file(secrets)} if secrets else {}
    if payload is not None:
        files[PAYLOAD_FILE] = payload
    if not files and not user:
        return
    uid, gid = _identity(daemon, container, user)
    with daemon.translated():
        done = daemon.api.put_archive(container, "/", archive(files, uid, gid))
    if not done:
        raise BackendRejected("the engine did not take the job's files into the container")


def _identity(daemon: Daemon, container: str, user: str) -> tuple[int, int]:
    """uid and gid of `NAME`, `UID` or either with `:GROUP`, looked up in the image where it is a name."""
    name, _, group = user.partition(":")
    uid, gid = (int(name), 0) if name.isdecimal() else (0, 0)
    if name and not (name.isdecimal() and group.isdecimal()):
        uid, gid = _lookup(_read(daemon, container, "/etc/passwd"), name, uid)
    if group:
        gid = int(group) if group.isdecimal() else _lookup(_read(daemon, container, "/etc/group"), group, 0)[0]
    return uid, gid


def _lookup(table: str, name: str, default: int) -> tuple[int, int]:
    """The numbers of an entry by its name or first number; a number without an entry stands for itself."""
    for line in table.splitlines():
        fields = line.split(":")
        if len(fields) >= 4 and name in (fields[0], fields[2]):
            return int(fields[2]), int(fields[3]) if fields[3].isdecimal() else 0
    if not name.isdecimal():
        raise BackendRejected(f"the image has no user or group {name!r}", "give numbers: -o user=1000:1000")
    return default, 0


def _read(daemon: Daemon, container: str, path: str) -> str:
    """A small text file of a container; empty if it has none."""
    try:
        with daemon.translated():
            chunks, _ = daemon.api.get_archive(container, path)
            data = b"".join(chunks)
    except NotFound:
        return ""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members: list[Any] = [member for member in tar.getmembers() if member.isreg() and member.size < _PASSWD_LIMIT]
        found = tar.extractfile(members[0]) if members else None
        return found.read().decode("utf-8", "replace") if found else ""
