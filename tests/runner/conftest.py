"""Runs whole jobs through the runner, as a container would: bash text, variables, an exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tao_run.entrypoint.bundle import archive, inline_script, payload_script
from tao_run.entrypoint.plans import make_plan
from tests.services.s3 import S3Service, s3, s3_service

__all__ = ["s3", "s3_service"]


@dataclass
class Ran:
    """How a job ended."""

    code: int
    out: str
    log: str
    results: Path

    @property
    def record(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.results / "tao-run.json").read_text())
        return data


@dataclass
class Container:
    """A stand-in for a container: a directory for results, a scratch directory, and an environment of its own."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable
    job_id: str = "job1"
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def results(self) -> Path:
        return self.root / "results" / self.job_id

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        base = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "TMPDIR": str(self.root / "tmp"),
            "TAO_RUN_PYTHON": self.python,
            "TAO_JOB_ID": self.job_id,
            "TAO_RESULTS_ROOT": str(self.root / "results"),
            "no_proxy": "127.0.0.1",
        }
        (self.root / "tmp").mkdir(exist_ok=True)
        return {name: value for name, value in {**base, **self.env, **(env or {})}.items() if value != ""}

    def start(self, env: Mapping[str, str] | None = None, **plan: Any) -> subprocess.Popen[str]:
        return self._bash(inline_script(make_plan(**plan)), env)

    def _bash(self, script: str, env: Mapping[str, str] | None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["/bin/bash", "-c", script],
            env=self.environment(env),
            cwd=self.root,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def run_staged(self, env: Mapping[str, str] | None = None, **plan: Any) -> Ran:
        """The same with the runner and its plan in a file, as platforms stage what is large."""
        payload = self.root / "payload.pyz"
        payload.write_bytes(archive(make_plan(**plan)))
        return self.finish(self._bash(payload_script(), {**(env or {}), "TAO_RUN_PAYLOAD": str(payload)}))

    def finish(self, process: subprocess.Popen[str], timeout: float = 60) -> Ran:
        out, log = process.communicate(timeout=timeout)
        return Ran(process.returncode, out, log, self.results)

    def run(self, env: Mapping[str, str] | None = None, **plan: Any) -> Ran:
        return self.finish(self.start(env, **plan))

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    """A container whose results persist."""
    made = Container(tmp_path)
    yield made
    made.close()


@pytest.fixture
def cloud(container: Container, s3: S3Service) -> Container:
    """A container that also knows the session's S3 server."""
    container.env.update(s3.container_env())
    return container
