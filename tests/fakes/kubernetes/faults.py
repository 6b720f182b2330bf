"""What can go wrong on the wire: statuses, resets, slow and cut answers, logs that end or stall."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field


@dataclass
class Fault:
    """Applies to the next `times` requests whose method and path match.

    `action`: a status code, or "reset" (before the work is done), "lost" (done, but the reply is lost),
    "hang", "cut" (half a body) or "html" (a proxy's page). `seconds` delays the answer first.
    """

    method: str
    path: str
    action: int | str
    times: int = 1
    seconds: float = 0
    headers: dict[str, str] = field(default_factory=dict)

    def fits(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in (method, "*") and re.search(self.path, path) is not None


@dataclass
class LogFault:
    """A follow that ends ("end"), stalls ("stall") or loses its connection ("reset") after some lines."""

    kind: str
    after: int
    times: int = 1
    pod: str = ""


class Faults:
    """The faults that are waiting to happen, taken one by one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []
        self._logs: list[LogFault] = []

    def add(self, fault: Fault | LogFault) -> None:
        with self._lock:
            if isinstance(fault, Fault):
                self._waiting.append(fault)
            else:
                self._logs.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()
            self._logs.clear()

    def take(self, method: str, path: str) -> Fault | None:
        with self._lock:
            for fault in self._waiting:
                if fault.fits(method, path):
                    fault.times -= 1
                    return fault
        return None

    def take_log(self, pod: str) -> LogFault | None:
        with self._lock:
            for fault in self._logs:
                if fault.times > 0 and fault.pod in pod:
                    fault.times -= 1
                    return fault
        return None
