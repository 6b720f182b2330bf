"""Every failure of the Lepton API as an error of ours: no body, no token and no library text reaches the user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
from tao_run.redact import redact

if TYPE_CHECKING:
    from requests import Response

INSTALL = 'pip install "tao-run[lepton]"'
_LONGEST_MESSAGE = 300


def not_installed(error: ImportError) -> NotInstalled:
    """A package of the `lepton` extra is missing."""
    return NotInstalled(f"the platform lepton needs the package {error.name or 'leptonai'}", INSTALL)


@contextmanager
def network_errors() -> Iterator[None]:
    """Turns what `requests` raises into BackendUnreachable: refused, DNS, time-out, proxy, TLS, broken answer."""
    from requests import exceptions

    try:
        yield
    except exceptions.ProxyError:
        raise BackendUnreachable(
            "the proxy does not let us through to the Lepton API", "look at HTTPS_PROXY and NO_PROXY"
        ) from None
    except exceptions.SSLError:
        raise BackendUnreachable(
            "the Lepton API's certificate is not trusted here", "set REQUESTS_CA_BUNDLE to your CA file"
        ) from None
    except exceptions.Timeout:
        raise BackendUnreachable("the Lepton API did not answer in time", "try again in a minute") from None
    except (exceptions.ChunkedEncodingError, exceptions.ContentDecodingError):
        raise ProtocolError("the Lepton API broke off its answer", "try again in a minute") from None
    except exceptions.RequestException as error:
        if "timed out" in str(error):  # a time-out that outlived its retries is no Timeout to requests
            raise BackendUnreachable("the Lepton API did not answer in time", "try again in a minute") from None
        raise BackendUnreachable(
            f"the Lepton API cannot be reached ({_cause(error)})", "look at the network and at LEPTON_WORKSPACE_URL"
        ) from None


def document(response: Response) -> Any:
    """The JSON of an answer, None if it is empty. Raises what `failure` makes of an error, ProtocolError for HTML."""
    if response.status_code >= 400:
        raise failure(response)
    body = response.content
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except ValueError:
        kind = plain(response.headers.get("Content-Type", "no content type").partition(";")[0])
        if "json" in kind:
            raise ProtocolError(
                f"the Lepton API answered with broken JSON (HTTP {response.status_code})", "try again in a minute"
            ) from None
        raise ProtocolError(
            f"the Lepton API answered with {kind} instead of JSON (HTTP {response.status_code})",
            "a proxy or login page is in between, or LEPTON_WORKSPACE_URL is not an API address",
        ) from None


def failure(response: Response) -> TaoRunError:
    """The error that an HTTP status of 400 or more stands for."""
    status, said = response.status_code, _said(response)
    if status == 401:
        return CredentialRefused(
            f"Lepton refuses the token{said}", "it is wrong or has expired: make a new one, set LEPTON_AUTH_TOKEN"
        )
    if status == 403:
        return PermissionRefused(
            f"the token may not do this in the workspace{said}", "ask the workspace's administrator for the role"
        )
    if status == 407:
        return BackendUnreachable("the proxy wants a login before the Lepton API", "look at HTTPS_PROXY and NO_PROXY")
    if status == 429:
        return RateLimited("Lepton asks to slow down", "wait a minute", retry_after=_retry_after(response))
    if status >= 500:
        return BackendFault(f"the Lepton API has a fault of its own (HTTP {status}){said}", "try again in a minute")
    kinds = {404: NotFound, 409: Conflict}
    return kinds.get(status, BackendRejected)(f"Lepton rejects the request (HTTP {status}){said}")


def _said(response: Response) -> str:
    """`: message` of the body `{"code", "message"}`; a body of any other shape is not shown."""
    try:
        body = json.loads(response.content)
    except ValueError:
        return ""
    message = body.get("message") if isinstance(body, dict) else None
    if not isinstance(message, str) or not message.strip():
        return ""
    return ": " + plain(message)


def plain(text: str) -> str:
    """A backend's text as one short line without secrets and control characters."""
    line = " ".join(redact(text).split())
    line = "".join(char for char in line if char.isprintable())
    return line if len(line) <= _LONGEST_MESSAGE else line[:_LONGEST_MESSAGE] + "..."


def _retry_after(response: Response) -> float | None:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() and int(value) > 0 else None


def _cause(error: Exception) -> str:
    """What the deepest cause is, without library text: it may hold the URL and its query."""
    text = str(error)
    known = {
        "Connection refused": "connection refused",
        "Name or service not known": "unknown host",
        "name resolution": "unknown host",
        "nodename nor servname": "unknown host",
        "Network is unreachable": "no network",
        "No route to host": "no route",
        "Remote end closed": "connection closed without an answer",
        "Connection reset": "connection reset",
    }
    return next((words for pattern, words in known.items() if pattern in text), type(error).__name__)
