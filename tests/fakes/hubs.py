"""Stand-ins on the wire for huggingface.co and NGC: what their download clients ask for, and their refusals."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c" * 40


@dataclass
class Hub:
    """What the server has and what it was asked. `cut` names files of which half the bytes come, once."""

    files: dict[str, bytes]
    token: str = ""
    cut: set[str] = field(default_factory=set)
    requests: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    def refuses(self, authorization: str) -> bool:
        return bool(self.token) and authorization != f"Bearer {self.token}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        authorization = self.headers.get("authorization", "")
        self.hub.requests.append((unquote(self.path), authorization))
        self.answer(urlsplit(self.path), authorization)

    def answer(self, url: Any, authorization: str) -> None:
        raise AssertionError("a handler answers")

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection = cut


class HuggingFace(_Handler):
    """One model or dataset `org/name`, revisions main and v2. Errors carry X-Error-Code, as the hub has it."""

    def answer(self, url: Any, authorization: str) -> None:
        path = unquote(url.path)
        if "org/name" not in path:
            return self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if self.hub.refuses(authorization):
            return self.send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        if path.startswith("/api/"):
            return self._revision(path)
        name = path.split("/resolve/")[1].partition("/")[2]
        body = self.hub.files[name]
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha1(body).hexdigest()}"'}
        self.send(200, body, headers)

    def _revision(self, path: str) -> None:
        if path.rpartition("/revision/")[2] not in ("main", "v2", COMMIT):
            return self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        siblings = [{"rfilename": name} for name in self.hub.files]
        answer = {"id": "org/name", "sha": COMMIT, "siblings": siblings}
        self.send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})


class Ngc(_Handler):
    """One model `org/team/model:1.0`, listed two files a page; downloads redirect to another path, as NGC's do."""

    def answer(self, url: Any, authorization: str) -> None:
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/token":
            return self._token(authorization)
        if url.path.startswith("/storage/"):
            return self._storage(unquote(url.path.removeprefix("/storage/")))
        if self.hub.refuses(authorization):
            return self.send(401, b"{}")
        if url.path == "/v2/org/org/team/team/models/model/versions/1.0/files":
            return self._list(int(query["page-number"]))
        if url.path == "/v2/models/org/org/team/team/model/1.0/files" and query["path"] in self.hub.files:
            return self.send(302, b"", {"Location": f"/storage/{query['path']}"})
        self.send(404, b"{}")

    def _token(self, authorization: str) -> None:
        right = base64.b64encode(b"$oauthtoken:old-key").decode()
        if authorization != f"Basic {right}":
            return self.send(401, b"{}")
        self.send(200, json.dumps({"token": self.hub.token}).encode())

    def _list(self, page: int) -> None:
        names = sorted(self.hub.files)
        entries = [{"path": n, "sizeInBytes": len(self.hub.files[n])} for n in names[2 * page : 2 * page + 2]]
        answer = {"modelFiles": entries, "paginationInfo": {"totalPages": -(-len(names) // 2)}}
        self.send(200, json.dumps(answer).encode())

    def _storage(self, name: str) -> None:
        cut = name in self.hub.cut
        self.hub.cut.discard(name)
        self.send(200, self.hub.files[name], cut=cut)


@contextmanager
def serve(kind: type[_Handler], hub: Hub) -> Iterator[Hub]:
    """The hub on a port of loopback; `hub.url` is its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type(kind.__name__, (kind,), {"hub": hub}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
