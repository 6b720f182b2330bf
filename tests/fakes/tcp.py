"""A TCP proxy in front of a real server: it can refuse connections, and cut those that are open."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from collections.abc import Iterator


class TcpProxy:
    """Passes bytes between 127.0.0.1:`port` and a server on another port of this machine."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._refusing = self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        self.cut()

    def cut(self) -> int:
        """Reset all open connections; returns how many there were."""
        with self._lock:
            held, self._open = self._open, set()
        for connection in held:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)
        return len(held)

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        """While inside, every connection is reset at once."""
        self._refusing = True
        self.cut()
        try:
            yield
        finally:
            self._refusing = False

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
                continue
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            with self._lock:
                self._open |= {client, server}
            with contextlib.suppress(OSError), selectors.DefaultSelector() as selector:
                selector.register(client, selectors.EVENT_READ, server)
                selector.register(server, selectors.EVENT_READ, client)
                while all(self._move(key.fileobj, key.data) for key, _ in selector.select()):  # type: ignore[arg-type]
                    pass
            with self._lock:
                self._open -= {client, server}

    @staticmethod
    def _move(source: socket.socket, target: socket.socket) -> bool:
        data = source.recv(65536)
        if data:
            target.sendall(data)
        return bool(data)
