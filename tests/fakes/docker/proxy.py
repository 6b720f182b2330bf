"""Stands between a client and dockerd on a unix socket: counts requests, cuts streams, loses replies, goes away."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator

_REQUEST = re.compile(rb"^(GET|POST|PUT|DELETE|HEAD) (\S+) HTTP/1\.1\r\n", re.MULTILINE)


class DockerProxy:
    """Forwards bytes as they are. `requests` holds every request seen, as `METHOD path`."""

    def __init__(self, server: str) -> None:
        self._server = server.removeprefix("unix://")
        self._directory = tempfile.mkdtemp(prefix="tao-proxy-")
        self.host = f"unix://{self._directory}/p.sock"
        self.requests: list[str] = []
        self.away = False
        self._lose: re.Pattern[str] | None = None
        self._open: dict[socket.socket, str] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self._directory}/p.sock")
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.cut(".")
        shutil.rmtree(self._directory, ignore_errors=True)

    def cut(self, pattern: str) -> int:
        """Break the open connections whose last request matches; returns how many."""
        hit = [client for client, last in list(self._open.items()) if re.search(pattern, last)]
        for client in hit:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        return len(hit)

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        """While inside, every connection is closed at once."""
        self.away = True
        self.cut(".")
        try:
            yield
        finally:
            self.away = False

    @contextlib.contextmanager
    def lost_reply(self, pattern: str) -> Iterator[None]:
        """The next request that matches is carried out; its answer never arrives."""
        self._lose = re.compile(pattern)
        try:
            yield
        finally:
            self._lose = None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.away:
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        losing = threading.Event()
        self._open[client] = ""
        try:
            server.connect(self._server)
            back = threading.Thread(target=self._replies, args=(server, client, losing), daemon=True)
            back.start()
            while data := client.recv(65536):
                self._note(client, data, losing)
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            back.join()
        except OSError:
            return
        finally:
            self._open.pop(client, None)
            server.close()
            client.close()

    def _note(self, client: socket.socket, data: bytes, losing: threading.Event) -> None:
        for found in _REQUEST.finditer(data):
            request = f"{found[1].decode()} {found[2].decode()}"
            self.requests.append(request)
            self._open[client] = request
            if self._lose and self._lose.search(request):
                self._lose = None
                losing.set()

    def _replies(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if losing.is_set():
                    break  # carried out, and the answer thrown away
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
