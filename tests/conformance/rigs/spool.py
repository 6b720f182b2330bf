"""The example of a platform that somebody else writes (examples/spool-platform) meets the same contract."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tao_run.clock import Clock
from tao_run.credentials import Credentials
from tao_run.jobs.store import Store
from tao_run.platforms.base import Platform
from tests.conformance.rig import CANARY, Rig

EXAMPLE = Path(__file__).parents[3] / "examples" / "spool-platform"


class SpoolRig(Rig):
    name = "spool"
    multi_node = False
    enforces_max_time = False

    def start(self, directory: Path) -> None:
        self.spool = directory / "spool"
        self.spool.mkdir()
        command = [str(EXAMPLE / "worker.sh"), str(self.spool)]
        self.worker = subprocess.Popen(command, start_new_session=True)
        sys.path.insert(0, str(EXAMPLE))
        while not (self.spool / "alive").exists():
            assert self.worker.poll() is None, "the worker ended at once"

    def stop(self) -> None:
        sys.path.remove(str(EXAMPLE))
        os.killpg(self.worker.pid, signal.SIGTERM)
        self.worker.wait()

    def environ(self) -> Mapping[str, str]:
        return {"HF_TOKEN": CANARY, "TAO_SPOOL_DIR": str(self.spool)}

    def make(self, credentials: Credentials, store: Store, clock: Clock) -> Platform:
        from tao_run_spool import SpoolSDK

        made: Platform = SpoolSDK(credentials=credentials, store=store, clock=clock)
        return made

    def requests(self) -> int | None:
        return None

    def jobs_named(self, name: str) -> int:
        return int((self.spool / "jobs" / name).is_dir())

    def seen_text(self) -> str:
        files = [path for path in self.spool.rglob("*") if path.is_file() and path.name != "env"]
        text = "".join(path.read_text(errors="replace") for path in files)
        arguments = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
        return text + "".join(argument.decode(errors="replace") for argument in arguments)

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        self.worker.send_signal(signal.SIGSTOP)
        (self.spool / "alive").unlink()
        try:
            yield
        finally:
            (self.spool / "alive").touch()
            self.worker.send_signal(signal.SIGCONT)

    def remove(self, platform: Platform, job: Any) -> bool:
        pid = int((self.spool / "jobs" / job.name / "pid").read_text())
        shutil.rmtree(self.spool / "jobs" / job.name)
        os.killpg(pid, signal.SIGKILL)
        (self.spool / "running" / job.name).unlink(missing_ok=True)
        return True


RIG = SpoolRig
