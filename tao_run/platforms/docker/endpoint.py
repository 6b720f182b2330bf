"""Where the daemon is: DOCKER_HOST, the context of Docker's own client, or the socket of this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tao_run.errors import UsageError

DEFAULT = "unix:///var/run/docker.sock"
#: the variables that say where the daemon is and how to reach it
SETTINGS = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")
_SCHEMES = ("unix", "tcp", "http", "https", "ssh", "npipe")
_REMOTE_SOCKET = "/var/run/docker.sock"
_SAFE_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*|\[[0-9a-fA-F:]+\]")


@dataclass(frozen=True)
class SshTarget:
    """An `ssh://[user@]host[:port][/path/of/socket]` endpoint."""

    destination: str
    port: int | None
    socket: str


def check_endpoint(text: str) -> str:
    """An endpoint in one form. Raises UsageError if it is none."""
    text = text.strip().rstrip("/") if not text.startswith("unix://") else text.strip()
    if text.startswith("/"):
        text = f"unix://{text}"
    scheme = text.partition("://")[0]
    if "://" not in text or scheme not in _SCHEMES:
        raise UsageError(f"{text!r} is no Docker host", "write unix:///path, tcp://host:port or ssh://user@host")
    if scheme == "ssh":
        ssh_target(text)
    return text


def is_local(endpoint: str) -> bool:
    """Whether the daemon shares this machine's disk and users."""
    return endpoint.startswith(("unix://", "npipe://"))


def ssh_target(endpoint: str) -> SshTarget:
    """What to tell OpenSSH. Raises UsageError."""
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    if parts.password or not _SAFE_HOST.fullmatch(host) or (parts.username or "").startswith("-"):
        raise UsageError(
            f"{endpoint!r} is no SSH host", "write ssh://user@host or ssh://user@host:port; keys, no password"
        )
    destination = f"{parts.username}@{host}" if parts.username else host
    return SshTarget(destination, _port(endpoint, parts), parts.path or _REMOTE_SOCKET)


def _port(endpoint: str, parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise UsageError(f"{endpoint!r}: the port is no number from 1 to 65535") from None


def default_endpoint(environ: Mapping[str, str]) -> str:
    """What Docker's own client would use here: DOCKER_HOST, DOCKER_CONTEXT, the current context, the socket."""
    if environ.get("DOCKER_HOST"):
        return check_endpoint(environ["DOCKER_HOST"])
    name = environ.get("DOCKER_CONTEXT") or str(
        _read_json(config_dir(environ) / "config.json").get("currentContext", "")
    )
    if name in ("", "default"):
        return DEFAULT
    for context in contexts(environ):
        if context.name == name:
            return check_endpoint(context.host)
    raise UsageError(f"there is no Docker context {name!r}", "`docker context ls` lists them; or set DOCKER_HOST")


@dataclass(frozen=True)
class Context:
    """One context of Docker's client. `tls` is the directory of its ca.pem, cert.pem and key.pem, if it has one."""

    name: str
    host: str
    tls: Path | None = None


def contexts(environ: Mapping[str, str]) -> list[Context]:
    """The contexts in ~/.docker (contexts/meta/<digest>/meta.json, as docker/cli stores them)."""
    root = config_dir(environ) / "contexts"
    return [_context(root, path) for path in sorted(root.glob("meta/*/meta.json"))]


def _context(root: Path, path: Path) -> Context:
    meta = _read_json(path)
    host = str(meta.get("Endpoints", {}).get("docker", {}).get("Host") or DEFAULT)
    tls = root / "tls" / path.parent.name / "docker"
    return Context(str(meta.get("Name", "")), host, tls if tls.is_dir() else None)


def config_dir(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def tls_files(endpoint: str, environ: Mapping[str, str]) -> tuple[Path, bool] | None:
    """The directory of the client's certificates for a tcp endpoint and whether to verify the server; None: plain."""
    if not endpoint.startswith(("tcp://", "https://")):
        return None
    if environ.get("DOCKER_CERT_PATH") or environ.get("DOCKER_TLS_VERIFY"):
        return Path(environ.get("DOCKER_CERT_PATH") or config_dir(environ)), bool(environ.get("DOCKER_TLS_VERIFY"))
    return next(((one.tls, True) for one in contexts(environ) if one.host == endpoint and one.tls), None)
