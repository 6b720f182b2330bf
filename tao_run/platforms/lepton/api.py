"""One HTTP session with a workspace: what observes a job reads through it, and the vendor's client is put on top of it.

Reads do not go through leptonai: importing it takes longer than a whole `tao-run status`, its models drop the
native state's own word and a replica's readiness issue, and one odd item makes it print raw items to stderr.
What creates, changes or discovers does (see `sdk`), on this same session, address and errors.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from tao_run.clock import Clock
from tao_run.errors import NotFound, PermissionRefused, ProtocolError
from tao_run.platforms.lepton.account import Account
from tao_run.platforms.lepton.faults import document, failure, network_errors, not_installed

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session
    from requests.adapters import HTTPAdapter

#: seconds: to connect, and between two bytes of an answer
TIMEOUT = (5.0, 30.0)
_LONGEST_WAIT = 60.0
_RETRIED = (429, 500, 502, 503, 504)
ALIVE_AND_ARCHIVE = "alive_and_archive"


class LeptonApi:
    """The API of one workspace. Opens no connection before the first call. Safe to use from several threads.

    Every method raises the errors of `faults`: BackendUnreachable and its kind, CredentialRefused,
    PermissionRefused, NotFound, Conflict, BackendRejected.
    """

    def __init__(self, account: Account, token: str, clock: Clock, timeout: tuple[float, float] = TIMEOUT) -> None:
        self.account = account
        self.timeout = timeout
        self.clock = clock
        self.token = token

    @cached_property
    def session(self) -> Session:
        """The session: bearer token, time-outs, retries of reads, no `.netrc`, no proxy for this machine."""
        try:
            import requests
        except ImportError as error:
            raise not_installed(error) from None
        session = requests.Session()
        session.auth = self._authorize
        session.trust_env = not _loopback(self.account.url)
        adapter = _patient_adapter(self.clock)
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        return session

    def get(self, path: str, **params: Any) -> Any:
        """The JSON that is at a path."""
        return self._json("GET", path, params=params)

    def post(self, path: str, body: Any) -> Any:
        """Send a document; never repeated by itself."""
        try:
            return self._json("POST", path, json=body)
        except NotFound:
            self.require_workspace()
            raise

    def delete(self, path: str) -> Any:
        """Remove what is at a path."""
        return self._json("DELETE", path)

    def rows(self, path: str, key: str = "", **params: Any) -> list[dict[str, Any]]:
        """A list of objects: the answer itself or its `key`. Null is an empty list; anything else ProtocolError."""
        return as_rows(self.get(path, **params), key)

    def require_workspace(self) -> None:
        """After a NotFound: raises PermissionRefused if it is the workspace itself that is not there."""
        try:
            self.get("/workspace")
        except NotFound:
            raise PermissionRefused(
                f"there is no workspace {self.account.workspace} for this token",
                "check LEPTON_WORKSPACE_ID and LEPTON_WORKSPACE_URL",
            ) from None

    @contextmanager
    def stream(self, path: str, idle_seconds: float) -> Iterator[Response]:
        """An answer whose body is read as it comes; a silence of `idle_seconds` breaks it off."""
        with network_errors():
            url = self.account.url + path
            with self.session.get(url, stream=True, timeout=(self.timeout[0], idle_seconds)) as response:
                if response.status_code >= 400:
                    raise failure(response)
                yield response

    def _json(self, method: str, path: str, **arguments: Any) -> Any:
        session = self.session
        with network_errors():
            response = session.request(method, self.account.url + path, timeout=self.timeout, **arguments)
        return document(response)

    def _authorize(self, request: PreparedRequest) -> PreparedRequest:
        # as the session's auth, so that a .netrc entry of this host cannot take its place
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request


def job_path(job_id: str, *more: str) -> str:
    """`/jobs/{id}/...`, quoted: an id cannot change the path."""
    return "/".join(["/jobs", *(quote(part, safe="") for part in (job_id, *more))])


def as_rows(answer: Any, key: str = "") -> list[dict[str, Any]]:
    """The objects of a list answer, bare or under `key`; items that are no objects are left out."""
    rows = answer[key] if key and isinstance(answer, Mapping) and key in answer else answer
    if rows is None:
        return []
    if not isinstance(rows, list):
        raise ProtocolError("the Lepton API answered with something that is no list", "try again in a minute")
    return [row for row in rows if isinstance(row, dict)]


def _patient_adapter(clock: Clock) -> HTTPAdapter:
    from requests.adapters import HTTPAdapter
    from urllib3.response import BaseHTTPResponse
    from urllib3.util.retry import Retry

    class PatientRetry(Retry):
        """Waits as the server asks (Retry-After), at most a minute, by the clock that was given."""

        def sleep(self, response: BaseHTTPResponse | None = None) -> None:
            asked = self.get_retry_after(response) if response is not None else None
            clock.sleep(min(asked or self.get_backoff_time(), _LONGEST_WAIT))

    return HTTPAdapter(
        max_retries=PatientRetry(
            total=4,
            connect=1,
            read=1,
            status=4,
            backoff_factor=0.5,
            status_forcelist=_RETRIED,
            allowed_methods={"GET"},
            raise_on_status=False,
        )
    )


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
