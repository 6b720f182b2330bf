"""The HTTP face of the fake workspace: routes, authentication, faults, live log streams."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from .faults import Fault, Faults, StreamPlan
from .jobs import FakeJob, FakeReplica
from .workspace import Answer, FakeWorkspace, Query, fail, first

REPLAYED_LINES = 10_000


@dataclass(frozen=True)
class Request:
    """One request as it came, for assertions."""

    method: str
    path: str
    query: Query
    body: str
    headers: dict[str, str]


class FakeLepton:
    """A Lepton API server on the loopback: ``with FakeLepton() as lepton: APIClient(..., url=lepton.url)``.

    ``workspace`` is the state; ``faults`` the misbehaviour to come; ``requests`` what was asked.
    """

    def __init__(
        self,
        workspace_id: str = "ws1",
        token: str = "fake-token-0123456789",
        *,
        port: int = 0,
        volumes: dict[str, Path] | None = None,
        run_jobs: bool = True,
    ) -> None:
        self.workspace_id = workspace_id
        self.token = token
        self.workspace = FakeWorkspace(volumes, run_jobs)
        self.faults = Faults()
        self.requests: list[Request] = []
        self.cuts = 0
        self.open_streams = 0
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The workspace's base URL, as LEPTON_WORKSPACE_URL takes it."""
        port = self._server.server_address[1]
        return f"http://127.0.0.1:{port}/api/v2/workspaces/{self.workspace_id}"

    def start(self) -> FakeLepton:
        """Serve in a thread."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop serving and kill what still runs."""
        for job in list(self.workspace.jobs.values()):
            self.workspace.runner.stop(job)
        self._server.shutdown()
        self._server.server_close()

    def cut_streams(self) -> int:
        """Break the live log streams that are open now; returns how many there were."""
        self.cuts += 1
        return self.open_streams

    def __enter__(self) -> FakeLepton:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def asked(self, method: str = "", path: str = "") -> list[Request]:
        """The requests so far of this method whose path contains ``path``."""
        return [r for r in list(self.requests) if method in ("", r.method) and path in r.path]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    fake: FakeLepton

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Requests are recorded, not printed."""

    def _serve(self) -> None:
        fake = self.server.fake
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        query = parse_qs(parts.query, keep_blank_values=True)
        headers = dict(self.headers.items())
        fake.requests.append(Request(self.command, unquote(parts.path), query, body, headers))
        fault = fake.faults.take(self.command, parts.path)
        if fault is not None and self._broken(fault):
            return
        refusal = self._refusal(parts.path)
        path = unquote(parts.path.removeprefix(f"/api/v2/workspaces/{fake.workspace_id}"))
        answer = refusal or self._answer(path, query, json.loads(body) if body else None)
        if answer is None:
            return
        if fault is not None and fault.drop == "after":
            self._hang_up()
        else:
            self._send(answer[0], b"" if answer[1] is None else json.dumps(answer[1]).encode())

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve

    def _broken(self, fault: Fault) -> bool:
        time.sleep(fault.delay)
        if fault.drop == "before":
            self._hang_up()
            return True
        if fault.status is not None:
            self._send(fault.status, fault.body, fault.headers, fault.content_type)
            return True
        return False

    def _refusal(self, path: str) -> Answer | None:
        fake = self.server.fake
        if self.headers.get("Authorization") != f"Bearer {fake.token}":
            return fail(401, "Unauthorized", "invalid token")
        if not path.startswith(f"/api/v2/workspaces/{fake.workspace_id}"):
            return fail(404, "WorkspaceNotFound", "no such workspace")
        return None

    def _answer(self, path: str, query: Query, body: Any) -> Answer | None:
        for method, pattern, handler in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == self.command:
                return handler(self, query, body, *match.groups())
        return fail(404, "NotFound", "no such resource")

    def _send(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, kind: str = "application/json"
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    # -- job routes ---------------------------------------------------------------------------------

    @property
    def _workspace(self) -> FakeWorkspace:
        return self.server.fake.workspace

    def job_get(self, query: Query, body: Any, job_id: str) -> Answer:
        return self._with_job(job_id, query, lambda job: (200, job.document()))

    def job_patch(self, query: Query, body: Any, job_id: str) -> Answer:
        return self._with_job(job_id, query, lambda job: self._workspace.patch_job(job, body))

    def job_delete(self, query: Query, body: Any, job_id: str) -> Answer:
        mode = query or {"job_query_mode": ["alive_only"]}
        return self._with_job(job_id, mode, self._workspace.delete_job)

    def job_replicas(self, query: Query, body: Any, job_id: str) -> Answer:
        return self._with_job(job_id, query, lambda job: (200, [r.document for r in job.replicas]))

    def job_events(self, query: Query, body: Any, job_id: str) -> Answer:
        return self._with_job(job_id, query, lambda job: (200, job.events))

    def job_analysis(self, query: Query, body: Any, job_id: str) -> Answer:
        def analysis(job: FakeJob) -> Answer:
            if job.failure_analysis is None:
                return fail(404, "NotFound", "no failure analysis")
            return 200, job.failure_analysis

        return self._with_job(job_id, query, analysis)

    def _with_job(self, job_id: str, query: Query, act: Callable[[FakeJob], Answer]) -> Answer:
        job = self._workspace.find_job(job_id, query)
        return fail(404, "NotFound", "job not found") if job is None else act(job)

    def live_log(self, query: Query, body: Any, job_id: str, replica_id: str) -> Answer | None:
        job = self._workspace.find_job(job_id, {})
        replica = next((r for r in job.replicas if r.id == replica_id), None) if job else None
        if job is None or replica is None:
            return fail(404, "NotFound", "replica not found")
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        _stream(self, job, replica, self.server.fake.faults.take_stream())
        return None

    def pull_secret_delete(self, query: Query, body: Any, name: str) -> Answer:
        found = self._workspace.pull_secrets.pop(name, None)
        return (200, None) if found else fail(404, "NotFound", "no such secret")

    def secret_delete(self, query: Query, body: Any, name: str) -> Answer:
        found = self._workspace.secrets.pop(name, None)
        return (200, {}) if found else fail(404, "NotFound", "no such secret")

    def node_group_get(self, query: Query, body: Any, group: str) -> Answer:
        rows = [g for g in self._workspace.node_groups if g["metadata"]["id"] == group]
        return (200, rows[0]) if rows else fail(404, "NotFound", "no such node group")

    def permissions(self, query: Query, body: Any, volume: str) -> Answer:
        return 200, self._workspace.permissions.get((volume, first(query, "nodegroup_id")), [])


class _Interrupted(Exception):
    """The plan says the stream ends here."""


def _stream(handler: _Handler, job: FakeJob, replica: FakeReplica, plan: StreamPlan) -> None:
    fake, sent = handler.server.fake, 0
    cuts = fake.cuts
    fake.open_streams += 1
    position = max(0, len(replica.lines) - (plan.only_last or REPLAYED_LINES))
    try:
        while True:
            over = job.ended
            fresh = replica.lines[position:]
            position += len(fresh)
            data = "".join(line + "\n" for _, line in fresh).encode()
            for start in range(0, len(data), plan.chunk):
                sent = _chunk(handler, data[start : start + plan.chunk], sent, plan)
            if over:
                break
            if fake.cuts != cuts:
                raise _Interrupted
            time.sleep(max(plan.idle, 0.01))
        handler.wfile.write(b"0\r\n\r\n")
    except _Interrupted:
        handler._hang_up()
    except OSError:
        handler.close_connection = True
    finally:
        fake.open_streams -= 1


def _chunk(handler: _Handler, data: bytes, sent: int, plan: StreamPlan) -> int:
    stop = plan.abort_after if plan.abort_after is not None else plan.close_after
    if stop is not None:
        data = data[: max(0, stop - sent)]
    if data:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
    if stop is not None and sent + len(data) >= stop:
        if plan.abort_after is None:
            handler.wfile.write(b"0\r\n\r\n")
        raise _Interrupted
    return sent + len(data)


Route = tuple[str, str, Callable[..., "Answer | None"]]
ROUTES: list[Route] = [
    ("GET", "/workspace", lambda h, q, b: h._workspace.info()),
    ("GET", "/jobs", lambda h, q, b: h._workspace.list_jobs(q)),
    ("POST", "/jobs", lambda h, q, b: h._workspace.create_job(b)),
    ("GET", "/jobs/([^/]+)", _Handler.job_get),
    ("PATCH", "/jobs/([^/]+)", _Handler.job_patch),
    ("DELETE", "/jobs/([^/]+)", _Handler.job_delete),
    ("GET", "/jobs/([^/]+)/replicas", _Handler.job_replicas),
    ("GET", "/jobs/([^/]+)/events", _Handler.job_events),
    ("GET", "/jobs/([^/]+)/failure-analysis", _Handler.job_analysis),
    ("GET", "/jobs/([^/]+)/replicas/([^/]+)/log", _Handler.live_log),
    ("GET", "/logs", lambda h, q, b: h._workspace.range_logs(q)),
    ("GET", "/usersecrets", lambda h, q, b: h._workspace.list_secrets()),
    ("POST", "/usersecrets", lambda h, q, b: h._workspace.create_secrets(b)),
    ("DELETE", "/usersecrets/(.+)", _Handler.secret_delete),
    ("GET", "/imagepullsecrets", lambda h, q, b: h._workspace.list_pull_secrets()),
    ("POST", "/imagepullsecrets", lambda h, q, b: h._workspace.create_pull_secret(b)),
    ("DELETE", "/imagepullsecrets/(.+)", _Handler.pull_secret_delete),
    ("GET", "/dedicated-node-groups", lambda h, q, b: (200, h._workspace.node_groups)),
    ("GET", "/dedicated-node-groups/([^/]+)", _Handler.node_group_get),
    ("GET", "/shapes", lambda h, q, b: h._workspace.list_shapes(q)),
    ("GET", "/storage-permission/([^/]+)", _Handler.permissions),
]
