"""Faults the fake server can be told to commit: the answers that break clients of a real service."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field


@dataclass
class Fault:
    """One misbehaviour, for the next ``times`` requests that match (``times=None``: all of them).

    ``status`` and ``body`` replace the answer. ``delay`` (seconds) comes first. ``drop`` closes the
    connection unanswered: "before" the request is carried out, or "after" it (a lost reply).
    """

    method: str = ".*"
    path: str = ".*"
    times: int | None = 1
    status: int | None = None
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay: float = 0.0
    drop: str = ""

    def matches(self, method: str, path: str) -> bool:
        """Whether this fault is meant for the request."""
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


def error(status: int, message: str = "injected", **kwargs: object) -> Fault:
    """An error answer in the service's own shape: ``{"code", "message"}``."""
    body = json.dumps({"code": f"E{status}", "message": message}).encode()
    return Fault(status=status, body=body, **kwargs)  # type: ignore[arg-type]


def document(value: object, **kwargs: object) -> Fault:
    """A 200 answer with this JSON document, whatever was asked."""
    return Fault(status=200, body=json.dumps(value).encode(), **kwargs)  # type: ignore[arg-type]


def html(status: int = 200, **kwargs: object) -> Fault:
    """The page of a proxy or a login portal where JSON should be."""
    page = b"<!doctype html><title>Sign in</title>"
    return Fault(status=status, body=page, content_type="text/html", **kwargs)  # type: ignore[arg-type]


@dataclass
class StreamPlan:
    """How the next live log connection behaves.

    ``chunk``: bytes per chunk (3 splits many characters). ``abort_after``: bytes after which the
    connection breaks without the closing chunk. ``only_last``: replay just this many lines.
    ``close_after``: bytes after which the stream ends in good order though the job goes on.
    """

    chunk: int = 65536
    abort_after: int | None = None
    close_after: int | None = None
    only_last: int | None = None
    idle: float = 0.0


class Faults:
    """The faults that wait for their request, oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []
        self._streams: list[StreamPlan] = []

    def add(self, fault: Fault) -> None:
        """Commit this fault at the next matching request."""
        with self._lock:
            self._waiting.append(fault)

    def add_stream(self, plan: StreamPlan) -> None:
        """Serve the next live log connection by this plan."""
        with self._lock:
            self._streams.append(plan)

    def clear(self) -> None:
        """Behave again."""
        with self._lock:
            self._waiting.clear()
            self._streams.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault for this request, if there is one; counts it down."""
        with self._lock:
            for fault in self._waiting:
                if fault.matches(method, path):
                    if fault.times is not None:
                        fault.times -= 1
                        if fault.times <= 0:
                            self._waiting.remove(fault)
                    return fault
        return None

    def take_stream(self) -> StreamPlan:
        """The plan of this live log connection."""
        with self._lock:
            return self._streams.pop(0) if self._streams else StreamPlan()
