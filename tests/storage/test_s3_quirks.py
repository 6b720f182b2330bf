"""Servers that keep something else than was sent, or do not let go of it."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tao_run.errors import BackendUnreachable, PermissionRefused, ProtocolError, TaoRunError
from tao_run.storage import S3Store, parse_location
from tests.storage.conftest import credentials

DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>"


class Quirky(BaseHTTPRequestHandler):
    """Just enough of the S3 wire for one object. `framing` is put before every stored body."""

    protocol_version = "HTTP/1.1"
    stored = b""
    framing = b""
    may_delete = True
    status = 200

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).stored = self.framing + body
        self.answer(self.status, DENIED if self.status == 403 else b"")

    def do_GET(self) -> None:
        self.answer(200, self.stored)

    def do_HEAD(self) -> None:
        self.answer(self.status)

    def do_DELETE(self) -> None:
        self.answer(204) if self.may_delete else self.answer(403, DENIED)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def quirky() -> Iterator[tuple[type[Quirky], S3Store]]:
    handler = type("Handler", (Quirky,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield handler, S3Store(credentials(f"http://127.0.0.1:{server.server_port}"), timeout=5)
    server.shutdown()
    server.server_close()


RESULTS = parse_location("s3://data-here/results")


def test_what_comes_back_is_compared(quirky: tuple[type[Quirky], S3Store]) -> None:
    handler, store = quirky
    assert store.probe_write(RESULTS) == ""
    handler.framing = b"39\r\n"
    with pytest.raises(ProtocolError, match="stored"):
        store.probe_write(RESULTS)


def test_no_checksum_is_added_for_custom_endpoints(quirky: tuple[type[Quirky], S3Store]) -> None:
    handler, store = quirky
    seen: list[list[str]] = []
    put = handler.do_PUT

    def do_put(self: Quirky) -> None:
        seen.append([name.lower() for name in self.headers])
        put(self)

    handler.do_PUT = do_put  # type: ignore[method-assign]
    store.probe_write(RESULTS)
    assert seen
    assert not [name for name in seen[0] if name.startswith("x-amz-checksum") or name == "x-amz-trailer"]


def test_an_object_that_cannot_be_deleted_is_a_remark_not_a_failure(quirky: tuple[type[Quirky], S3Store]) -> None:
    handler, store = quirky
    handler.may_delete = False
    assert "could not be deleted" in store.probe_write(RESULTS)


@pytest.mark.parametrize(
    ("status", "kind"), [(403, PermissionRefused), (500, BackendUnreachable), (503, BackendUnreachable)]
)
def test_answers_are_told_apart(quirky: tuple[type[Quirky], S3Store], status: int, kind: type[TaoRunError]) -> None:
    handler, store = quirky
    handler.status = status
    with pytest.raises(kind):
        store.probe_write(RESULTS)
