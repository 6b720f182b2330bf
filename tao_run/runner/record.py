"""Writes tao-run.json beside the results: what ran, for how long, what moved, how it ended. No secret in it."""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Set

from . import log

SCHEMA_VERSION = 1


class Record:
    """The record of one rank, filled as the job goes on. `secrets` are values that must not get into it."""

    def __init__(self, folder: str, name: str, secrets: Set[str]) -> None:
        self.path = os.path.join(folder, name)
        self._secrets = secrets
        self._started = time.time()
        self.data: Dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "state": "staging",
            "started_at": _utc(self._started),
            "timings": {},
            "python": platform.python_version(),
        }

    def put(self, **values: Any) -> None:
        """Add to the record, and write it."""
        self.data.update(values)
        self._write()

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Note how many seconds a phase took, however it ended."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.data["timings"][f"{phase}_seconds"] = round(time.monotonic() - started, 3)

    def end(self, exit_code: int, **values: Any) -> None:
        """The last word: exit code and time."""
        ended = time.time()
        state = "complete" if exit_code == 0 else "failed"
        seconds = round(ended - self._started, 3)
        self.put(state=state, exit_code=exit_code, ended_at=_utc(ended), seconds=seconds, **values)

    def _write(self) -> None:
        temporary = f"{self.path}.{os.getpid()}.tao-run"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(self._clean(self.data), file, indent=2, ensure_ascii=False)
                file.write("\n")
            os.replace(temporary, self.path)
        except OSError as error:
            log.warn(f"cannot write {self.path}: {error.strerror}")

    def _clean(self, data: Any) -> Any:
        if isinstance(data, str):
            for secret in self._secrets:
                data = data.replace(secret, "[redacted]")
        elif isinstance(data, dict):
            return {key: self._clean(value) for key, value in data.items()}
        elif isinstance(data, list):
            return [self._clean(value) for value in data]
        return data


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
