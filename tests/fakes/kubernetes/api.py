"""The HTTP face of the fake: paths, tokens, rights, faults, dry runs, logs in chunks."""

from __future__ import annotations

import datetime
import http.server
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.kubernetes.controllers import ControlPlane, admit_job
from tests.fakes.kubernetes.faults import Fault, Faults
from tests.fakes.kubernetes.kubelet import Kubelet
from tests.fakes.kubernetes.objects import API, ApiError, Obj, Objects
from tests.fakes.kubernetes.podlog import stamp

PATH = re.compile(
    r"^/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?$"
)
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")


@dataclass
class User:
    """A token's owner. Rules are (namespace or "*", resource or "*", verbs)."""

    name: str
    rules: list[tuple[str, str, set[str]]]

    def may(self, namespace: str, resource: str, verb: str) -> bool:
        return any(
            scope in ("*", namespace) and kind in ("*", resource) and (verb in verbs or "*" in verbs)
            for scope, kind, verbs in self.rules
        )


@dataclass
class Call:
    """One request as it arrived, for tests that count or inspect them."""

    method: str
    path: str
    query: dict[str, str]
    body: Any = None
    user: str = ""


@dataclass
class FakeKubernetes:
    """The whole cluster: start it with `with FakeKubernetes() as cluster`, then use `cluster.kubeconfig(path)`."""

    objects: Objects = field(default_factory=Objects)
    faults: Faults = field(default_factory=Faults)
    calls: list[Call] = field(default_factory=list)
    users: dict[str, User] = field(default_factory=dict)
    version: str = "v1.33.1"

    def __post_init__(self) -> None:
        self.kubelet = Kubelet(self.objects)
        self.control = ControlPlane(self.objects, self.kubelet)
        self.objects.admit.append(admit_job)
        self.users["admintoken"] = User("admin", [("*", "*", {"*"})])
        self._stop = threading.Event()
        self.cuts = 0

    def __enter__(self) -> FakeKubernetes:
        for namespace in ("default", "kube-system"):
            self.objects.create("namespaces", "", {"metadata": {"name": namespace}})
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        threading.Thread(target=self._control_loop, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        with self.objects.lock:
            self.kubelet.stop()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def cut_logs(self) -> None:
        """Break every log stream that is open now."""
        self.cuts += 1

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _control_loop(self) -> None:
        while not self._stop.is_set():
            self.control.tick()
            with self.objects.changed:
                self.objects.changed.wait(0.05)
            self._stop.wait(0.01)

    def node(self, name: str = "node1", gpus: int = 8, **spec: Any) -> None:
        """Add a node with GPUs; `labels` and `taints` as keywords."""
        labels = spec.pop("labels", {})
        capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        status = {"allocatable": capacity, "capacity": capacity}
        status["conditions"] = [{"type": "Ready", "status": "True"}]
        self.objects.create("nodes", "", {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})

    def kubeconfig(self, path: Path, token: str = "admintoken", namespace: str = "default") -> Path:
        """Write a kubeconfig for one user of this cluster; its only context is called `fake`."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "user", "namespace": namespace}}],
            "current-context": "fake",
        }
        path.write_text(json.dumps(config))
        return path

    def count(self, method: str, resource: str) -> int:
        """How many requests of this method went to a collection or object of the resource."""
        return sum(c.method == method and f"/{resource}" in c.path for c in self.calls)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    fake: FakeKubernetes

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._handle("GET")

    def do_POST(self) -> None:
        self._handle("POST")

    def do_PATCH(self) -> None:
        self._handle("PATCH")

    def do_DELETE(self) -> None:
        self._handle("DELETE")

    def _handle(self, method: str) -> None:
        url = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = Call(method, url.path, dict(parse_qsl(url.query)), json.loads(raw) if raw else None)
        fault = self.fake.faults.take(method, self.path)
        if fault and not self._before(fault):
            return
        try:
            call.user = self._user().name
            self.fake.calls.append(call)
            answer = self._answer(call)
        except ApiError as error:
            self._send(error.code, error.status())
            return
        if fault and fault.action in ("lost", "cut"):
            self._broken(answer, half=fault.action == "cut")
        elif answer is not None:
            self._send(201 if method == "POST" else 200, answer)

    def _before(self, fault: Fault) -> bool:
        """Play a fault that comes before the work; True when the request goes on."""
        for _ in range(int(fault.seconds * 50)):
            if not self.fake.stopping:
                time.sleep(0.02)
        if isinstance(fault.action, int):
            text = f"injected {fault.action}"
            self._send(fault.action, ApiError(fault.action, "Injected", text).status(), fault.headers)
        elif fault.action == "html":
            self._write(200, b"<html><body>Sign in to the proxy</body></html>", "text/html", {})
        elif fault.action == "reset":
            self._reset()
        return fault.action in ("lost", "cut", "slow")

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def _broken(self, answer: Obj | None, half: bool) -> None:
        if half:
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
        self._reset()

    def _send(self, code: int, answer: Obj, headers: dict[str, str] | None = None) -> None:
        self._write(code, json.dumps(_public(answer)).encode(), "application/json", headers or {})

    def _write(self, code: int, data: bytes, kind: str, headers: dict[str, str]) -> None:
        try:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def _user(self) -> User:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.fake.users:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return self.fake.users[token]

    def _answer(self, call: Call) -> Obj | None:
        if call.path in ("/version", "/version/"):
            return {"major": "1", "minor": self.fake.version.split(".")[1], "gitVersion": self.fake.version}
        found = PATH.match(call.path)
        if found is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        parts = found.groupdict()
        if parts["resource"] == "selfsubjectaccessreviews":
            return self._review(call)
        if parts["namespace"] and parts["resource"] == "namespaces":
            parts.update(name=parts["namespace"], namespace="")
        elif call.path.startswith("/api/v1/namespaces/") and call.path.count("/") == 4:
            parts.update(resource="namespaces", name=call.path.rsplit("/", 1)[1], namespace=None)
        if parts["resource"] not in API:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        self._authorize(call, parts)
        if parts["sub"] == "log":
            self._log(call, parts)
            return None
        return self._object(call, parts)

    def _authorize(self, call: Call, parts: dict[str, Any]) -> None:
        verb = VERBS.get(call.method) or ("get" if parts["name"] else "list")
        resource = parts["resource"] + (f"/{parts['sub']}" if parts["sub"] else "")
        if self._user().may(parts["namespace"] or "", resource.split("/")[0], verb):
            return
        group = "" if API[parts["resource"]][0] == "v1" else API[parts["resource"]][0].split("/")[0]
        where = f'in the namespace "{parts["namespace"]}"' if parts["namespace"] else "at the cluster scope"
        name = f'"{parts["name"]}" ' if parts["name"] else ""
        head = f'{resource} {name}is forbidden: User "{self._user().name}" cannot {verb} resource "{resource}"'
        raise ApiError(403, "Forbidden", f'{head} in API group "{group}" {where}')

    def _review(self, call: Call) -> Obj:
        asked = call.body["spec"]["resourceAttributes"]
        allowed = self._user().may(asked.get("namespace", ""), asked["resource"], asked["verb"])
        return {**call.body, "status": {"allowed": allowed}}

    def _object(self, call: Call, parts: dict[str, Any]) -> Obj:
        objects, resource, name = self.fake.objects, parts["resource"], parts["name"]
        namespace = parts["namespace"] or ""
        if call.method == "GET" and not name:
            scope = parts["namespace"] if parts["namespace"] else None
            query = call.query
            items = objects.select(resource, scope, query.get("labelSelector", ""), query.get("fieldSelector", ""))
            meta = {"resourceVersion": objects.version()}
            version, kind = API[resource]
            return {"kind": f"{kind}List", "apiVersion": version, "metadata": meta, "items": items}
        if call.method == "GET":
            return objects.get(resource, namespace, name)
        if call.method == "POST":
            return objects.create(resource, namespace, call.body, dry_run=call.query.get("dryRun") == "All")
        if call.method == "PATCH":
            if self.headers.get("Content-Type") not in PATCHES:
                raise ApiError(415, "UnsupportedMediaType", "the patch type is not supported")
            return objects.patch(resource, namespace, name, call.body)
        options = {**(call.body or {}), **call.query}
        return objects.delete(resource, namespace, name, options)

    def _log(self, call: Call, parts: dict[str, Any]) -> None:
        pod = self.fake.objects.get("pods", parts["namespace"], parts["name"])
        log = self.fake.kubelet.logs.get(pod["metadata"]["uid"])
        if log is None:
            statuses = pod["status"].get("containerStatuses") or [{}]
            reason = statuses[0].get("state", {}).get("waiting", {}).get("reason", "ContainerCreating")
            text = f'container "{pod["spec"]["containers"][0]["name"]}" in pod "{parts["name"]}" is waiting to start'
            raise ApiError(400, "BadRequest", f"{text}: {reason}")
        query = call.query
        tail = int(query["tailLines"]) if "tailLines" in query else None
        follow = query.get("follow") in ("true", "True")
        lines = log.read(_seconds(query.get("sinceTime", "")), tail, follow)
        self._stream(lines, query.get("timestamps") in ("true", "True"), parts["name"] if follow else "")

    def _stream(self, lines: Iterator[tuple[int, bytes] | None], stamped: bool, pod: str) -> None:
        fault = self.fake.faults.take_log(pod) if pod else None
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        cuts = self.fake.cuts
        try:
            for number, line in enumerate(line for line in lines if line or self._alive(cuts)):
                if self.fake.cuts != cuts:
                    self._reset()
                    return
                if fault and number >= fault.after:
                    if fault.kind == "end":
                        break
                    if fault.kind == "reset":
                        self._reset()
                        return
                    self._stall()
                    return
                if line:
                    text = (stamp(line[0]) + b" " if stamped else b"") + line[1]
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
                    self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def _alive(self, cuts: int) -> bool:
        """Whether a silent stream has something to do: notice that it was cut."""
        if self.fake.stopping:
            raise ConnectionAbortedError
        return self.fake.cuts != cuts

    def _stall(self) -> None:
        self.close_connection = True
        while not self.fake.stopping:
            try:
                if self.connection.recv(1, socket.MSG_DONTWAIT) == b"":
                    return
            except BlockingIOError:
                time.sleep(0.02)


def _public(value: Any) -> Any:
    """Without the controllers' own notes."""
    if isinstance(value, dict):
        return {k: _public(v) for k, v in value.items() if not k.startswith("_")}
    return [_public(v) for v in value] if isinstance(value, list) else value


def _seconds(text: str) -> float:
    """The API passes sinceTime on to the kubelet in whole seconds."""
    if not text:
        return 0
    parsed = datetime.datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00"))
    return int(parsed.timestamp())
