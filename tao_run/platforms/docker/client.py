"""The Docker SDK's client for one daemon, and its errors in our words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any

from tao_run.clock import Clock
from tao_run.errors import (
    BackendFault,
    BackendRejected,
    BackendUnreachable,
    Conflict,
    CredentialRefused,
    NotFound,
    NotInstalled,
    PermissionRefused,
    ProtocolError,
    RateLimited,
    TaoRunError,
)
from tao_run.platforms.docker.endpoint import is_local, tls_files
from tao_run.platforms.docker.tunnel import Tunnel
from tao_run.platforms.stamps import parse_stamp, to_datetime
from tao_run.redact import redact

CONNECT_SECONDS = 20
READ_SECONDS = 120


_START = "start it (systemctl start docker), or set DOCKER_HOST; `docker info` must work"
_INIT = "install the engine's init (tini for Docker, catatonit for Podman), or -o init=false"
# what the engine says (often with status 500) where the request or the host is at fault -> what to do
_REFUSALS = {
    "could not select device driver": "install nvidia-container-toolkit on the daemon's host and restart docker",
    "nvidia-container-cli: device error": "check the device ids on the daemon's host: nvidia-smi -L",
    "nvidia-container-cli": "check the driver on the daemon's host: nvidia-smi",
    "unresolvable CDI devices": "check the device ids on the daemon's host: nvidia-ctk cdi list",
    "docker-init": _INIT,
    "container-init binary": _INIT,
    "OCI runtime create failed": "the engine could not start the command; see the message",
    "oci runtime error": "the engine could not start the command; see the message",
    "does not support reading": "the engine's log driver keeps no log that can be read; json-file or local does",
    "address already in use": "choose another port or network",
    "unknown or invalid runtime name": "-o runtime=... must name a runtime that `docker info` lists",
}


class Daemon:
    """One daemon. Connects when first used; `api` raises what `translated` turns into ours."""

    def __init__(self, endpoint: str, clock: Clock, environ: Mapping[str, str]) -> None:
        self.endpoint = endpoint
        self.clock = clock
        self._environ = environ
        self._tunnel = Tunnel(endpoint, clock) if endpoint.startswith("ssh://") else None
        self._client: Any = None
        self._url = ""

    @property
    def is_local(self) -> bool:
        """Whether it shares this machine's disk and users."""
        return is_local(self.endpoint)

    @property
    def api(self) -> Any:
        """docker.APIClient, connected. Raises NotInstalled, BackendUnreachable, CredentialError."""
        load_sdk()
        url = self._tunnel.url() if self._tunnel else self.endpoint
        if self._client is None or self._url != url:
            with self.translated():
                self._client, self._url = _connect(url, self._environ), url
        return self._client

    @cached_property
    def info(self) -> dict[str, Any]:
        """GET /info: what does not change while the daemon runs."""
        with self.translated():
            return dict(self.api.info())

    def close(self) -> None:
        """Give up the connection; the next use makes a new one."""
        if self._tunnel:
            self._tunnel.stop()

    def now(self) -> datetime:
        """The daemon's own clock: ages are told by it, whatever this machine's clock says."""
        with self.translated():
            told = parse_stamp(f"{self.api.info().get('SystemTime')} ".encode())
        return to_datetime(told[0]) if told else self.clock.now()

    def stream(self, path: str, params: Mapping[str, Any], read_seconds: float) -> Any:
        """A streamed GET, for what the SDK does not hand out as it comes (logs by frame). The caller closes it."""
        url = f"{self.api.base_url}/v{self.api.api_version}{path}"
        response = self.api.get(url, params=params, stream=True, timeout=(CONNECT_SECONDS, read_seconds))
        if response.status_code >= 400:
            with response:
                raise _by_status(response.status_code, _message(response), self.endpoint)
        return response

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of the SDK and of the connection become ours."""
        import docker.errors
        import requests.exceptions
        import urllib3.exceptions

        try:
            yield
        except docker.errors.APIError as error:
            raise _by_status(error.status_code or 500, str(error.explanation or error), self.endpoint) from None
        except (json.JSONDecodeError, docker.errors.StreamParseError) as error:
            raise _no_engine(self.endpoint, str(error)) from None
        except docker.errors.TLSParameterError as error:
            raise CredentialRefused(f"TLS for {self.endpoint}: {error}", "check DOCKER_CERT_PATH") from None
        except docker.errors.DockerException as error:  # while it asks for the version, the SDK wraps what it met
            cause = error.__cause__
            if isinstance(cause, docker.errors.APIError):
                raise _by_status(cause.status_code or 500, str(cause.explanation or cause), self.endpoint) from None
            raise _unreachable(self.endpoint, error) from None
        except requests.exceptions.RequestException as error:
            raise _unreachable(self.endpoint, error) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _unreachable(self.endpoint, error) from None


def _connect(url: str, environ: Mapping[str, str]) -> Any:
    docker = load_sdk()
    tls: Any = False
    files = tls_files(url, environ)
    if files:
        directory, verify = files
        tls = docker.tls.TLSConfig(
            client_cert=(str(directory / "cert.pem"), str(directory / "key.pem")),
            ca_cert=str(directory / "ca.pem"),
            verify=verify,
        )
    return docker.APIClient(base_url=url, version="auto", timeout=READ_SECONDS, tls=tls)


def load_sdk() -> Any:
    """The docker package. Raises NotInstalled with the command that installs it."""
    try:
        import docker
        import docker.tls
    except ImportError:
        raise NotInstalled("the docker platform needs the docker package", 'pip install "tao-run[docker]"') from None
    return docker


def _message(response: Any) -> str:
    try:
        return str(response.json().get("message") or response.text)
    except ValueError:
        return str(response.text)


def _by_status(status: int, message: str, endpoint: str) -> TaoRunError:
    text = " ".join(redact(message).split())[:600] or f"HTTP {status}"
    if status == 401:
        return CredentialRefused(f"{endpoint} refuses the credentials: {text}")
    if status == 403:
        return PermissionRefused(f"{endpoint} does not allow this: {text}")
    if status == 429:
        return RateLimited(f"{endpoint}: {text}")
    hint = next((hint for phrase, hint in _REFUSALS.items() if phrase in text), "")
    if status >= 500 and not hint:
        return BackendFault(f"{endpoint} has a fault: {text}", "see the daemon's log on its host: journalctl -u docker")
    return {404: NotFound, 409: Conflict}.get(status, BackendRejected)(f"docker: {text}", hint)


def _no_engine(endpoint: str, text: str) -> ProtocolError:
    return ProtocolError(f"what answers at {endpoint} is no Docker engine: {redact(text)[:200]}", "check DOCKER_HOST")


def _unreachable(endpoint: str, error: Exception) -> TaoRunError:
    text = " ".join(redact(str(error)).split())
    if "Expecting value" in text or "Invalid response" in text:
        return _no_engine(endpoint, text)
    if "Permission denied" in text or "PermissionError" in text:
        hint = "add yourself to the group docker (usermod -aG docker $USER) and log in again, or use rootless Docker"
        return PermissionRefused(f"no permission to use {endpoint}", hint)
    what = "refuses connections" if "refused" in text.lower() else "does not answer"
    if "FileNotFoundError" in text or "No such file" in text:
        what = "is not there"
    return BackendUnreachable(f"the Docker daemon at {endpoint} {what}", _START)
