"""Fetches model versions from NVIDIA NGC over its REST interface.

`ngc://org/[team/]model:version[/file]`. Public models need no key; NGC_KEY opens the others: a personal key
(`nvapi-...`) is a bearer token by itself, an older API key is exchanged for one at authn.nvidia.com.
Protocol: the files of a version at `/v2/org/O/team/T/models/M/versions/V/files`, one file at
`/v2/models/org/O/team/T/M/V/files?redirect=true&path=P`, as the NGC catalog's own download commands have it.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import socket
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from . import log
from .errors import Absent, InputError, Transient
from .parallel import retrying, run_all
from .stop import Stop
from .uris import Uri, confined

_API = "https://api.ngc.nvidia.com"
_AUTHN = "https://authn.nvidia.com"
_MODEL = re.compile(r"(?P<org>[^/:]+)/(?:(?P<team>[^/:]+)/)?(?P<model>[^/:]+):(?P<version>[^/:]+)(?:/(?P<file>.+))?")
_TIMEOUT = 60.0
_WORKERS = 4


class ModelVersion(NamedTuple):
    """One version of one model; `file` is a path inside it, or nothing for all of it."""

    org: str
    team: Optional[str]
    model: str
    version: str
    file: Optional[str]

    @property
    def folder(self) -> str:
        """A relative path of its own."""
        return confined("_ngc", self.org, self.team or "no-team", self.model, self.version)


class File(NamedTuple):
    """One file of a version. `size` is -1 if NGC does not say."""

    path: str
    size: int


def parse(uri: Uri) -> ModelVersion:
    """The parts of an ngc:// URI. Raises InputError."""
    match = _MODEL.fullmatch(uri.key.rstrip("/"))
    if match is None:
        raise InputError(f"{uri.text} is not an NGC model version", "write ngc://org/team/model:version")
    return ModelVersion(**match.groupdict())


class Ngc:
    """NGC with the key of the job, if there is one. NGC_API_URL and NGC_AUTHN_URL name another server."""

    def __init__(self, env: Mapping[str, str], stop: Stop) -> None:
        self._api = env.get("NGC_API_URL", _API).rstrip("/")
        self._authn = env.get("NGC_AUTHN_URL", _AUTHN).rstrip("/")
        self._key = env.get("NGC_KEY") or env.get("NGC_API_KEY") or env.get("NGC_CLI_API_KEY") or ""
        self._stop = stop
        self._token: Optional[str] = None

    def fetch(self, uri: Uri, folder: str, scratch: str) -> List[str]:
        """Have the version's files below `folder`; returns their relative paths. Raises Absent, InputError, Stopped."""
        wanted = parse(uri)
        files = [file for file in self._files(wanted, uri) if wanted.file in (None, file.path)]
        if not files:
            raise Absent(f"{uri.text} is not there", "check model, version and file on catalog.ngc.nvidia.com")
        missing = [file for file in files if not _present(os.path.join(folder, confined(file.path)), file.size)]
        progress = log.Progress(f"fetched {uri.text}", len(missing), sum(max(0, file.size) for file in missing))
        tasks = (
            partial(self._fetch_file, wanted, file, folder, os.path.join(scratch, f"ngc-{number}"), progress)
            for number, file in enumerate(missing)
        )
        run_all(tasks, _WORKERS, self._stop, progress.tick)
        log.say(progress.summary() if missing else f"{uri.text}: already here")
        return [file.path for file in files]

    def _files(self, wanted: ModelVersion, uri: Uri) -> Iterator[File]:
        team = f"/team/{_quoted(wanted.team)}" if wanted.team else ""
        base = f"{self._api}/v2/org/{_quoted(wanted.org)}{team}/models/{_quoted(wanted.model)}"
        page, pages = 0, 1
        while page < pages:
            query = urllib.parse.urlencode({"page-number": page, "page-size": 100})
            answer = self._json(f"{base}/versions/{_quoted(wanted.version)}/files?{query}", uri, wanted)
            for entry in answer.get("modelFiles") or ():
                yield File(entry.get("path") or entry["name"], int(entry.get("sizeInBytes", entry.get("size", -1))))
            pages = int((answer.get("paginationInfo") or {}).get("totalPages", 1))
            page += 1

    def _json(self, url: str, uri: Uri, wanted: ModelVersion) -> Dict[str, Any]:
        def attempt() -> Dict[str, Any]:
            with self._open(url, wanted, uri.text) as answer:
                data = json.load(answer)
            return data if isinstance(data, dict) else {}

        return retrying(attempt, self._stop)

    def _fetch_file(
        self, wanted: ModelVersion, file: File, folder: str, temporary: str, progress: log.Progress
    ) -> None:
        team = f"/team/{_quoted(wanted.team)}" if wanted.team else ""
        url = (
            f"{self._api}/v2/models/org/{_quoted(wanted.org)}{team}/{_quoted(wanted.model)}/{_quoted(wanted.version)}"
            f"/files?redirect=true&path={urllib.parse.quote(file.path, safe='')}"
        )
        path = os.path.join(folder, confined(file.path))

        def attempt() -> None:
            try:
                with self._open(url, wanted, file.path) as answer, open(temporary, "wb") as out:
                    shutil.copyfileobj(answer, out, 1 << 20)
            except (http.client.HTTPException, ConnectionError, socket.timeout) as error:
                raise Transient(f"{file.path}: the connection broke ({error})") from None
            size = os.stat(temporary).st_size
            if file.size >= 0 and size != file.size:
                raise Transient(f"{file.path}: {size} bytes came where {file.size} were expected")

        retrying(attempt, self._stop)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(temporary, path)
        progress.add(1, max(0, file.size))

    def _open(self, url: str, wanted: ModelVersion, what: str) -> Any:
        request = urllib.request.Request(url, headers={"Accept": "*/*"})
        token = self._bearer(wanted)
        if token:
            # not sent along when the answer redirects to another host, which has a signature in its URL
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            return urllib.request.urlopen(request, timeout=_TIMEOUT)
        except urllib.error.HTTPError as error:
            raise self._explain(error.code, what) from None
        except (urllib.error.URLError, OSError) as error:
            raise Transient(f"{self._api} does not answer ({getattr(error, 'reason', error)})") from None

    def _bearer(self, wanted: ModelVersion) -> str:
        if self._token is None:
            legacy = self._key and not self._key.startswith("nvapi-")
            self._token = self._exchange(wanted) if legacy else self._key
        return self._token

    def _exchange(self, wanted: ModelVersion) -> str:
        """A bearer token for an older API key."""
        scopes = [("service", "ngc"), ("scope", f"group/ngc:{wanted.org}")]
        if wanted.team:
            scopes.append(("scope", f"group/ngc:{wanted.org}/{wanted.team}"))
        basic = base64.b64encode(f"$oauthtoken:{self._key}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
        request = urllib.request.Request(f"{self._authn}/token?{urllib.parse.urlencode(scopes)}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                return str(json.load(answer).get("token", ""))
        except urllib.error.HTTPError as error:
            raise self._explain(error.code, "a token") from None
        except (urllib.error.URLError, OSError) as error:
            raise Transient(f"{self._authn} does not answer ({getattr(error, 'reason', error)})") from None

    def _explain(self, status: int, what: str) -> Exception:
        if status in (401, 403):
            state = "does not accept NGC_KEY" if self._key else "wants a key: NGC_KEY is not set"
            return InputError(f"NGC {state} for {what} ({status})", "check NGC_KEY and the access of its organisation")
        if status == 404:
            return Absent(f"NGC has no {what}", "check model and version on catalog.ngc.nvidia.com")
        if status >= 500 or status == 429:
            return Transient(f"NGC answered {status} for {what}")
        return InputError(f"NGC answered {status} for {what}")


def _present(path: str, size: int) -> bool:
    try:
        return size >= 0 and os.stat(path).st_size == size
    except OSError:
        return False


def _quoted(part: Optional[str]) -> str:
    return urllib.parse.quote(part or "", safe="")
