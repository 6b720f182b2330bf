"""The local platform: jobs as processes of this machine."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tao_run.clock import Clock
from tao_run.credentials import Credentials
from tao_run.jobs.store import Store
from tao_run.platforms.base import Platform
from tao_run.platforms.local import LocalSDK
from tests.conformance.rig import CANARY, Rig


class LocalRig(Rig):
    name = "local"

    def start(self, directory: Path) -> None:
        self.stores: list[Path] = []
        self.made: list[LocalSDK] = []

    def environ(self) -> Mapping[str, str]:
        return {"HF_TOKEN": CANARY, "TAO_RUN_LOCAL_GPUS": ""}

    def options(self) -> Mapping[str, Any]:
        return {"grace": 2}

    def make(self, credentials: Credentials, store: Store, clock: Clock) -> Platform:
        self.stores.append(store.directory)
        self.made.append(LocalSDK(credentials=credentials, store=store, clock=clock))
        return self.made[-1]

    def requests(self) -> int | None:
        return None

    def jobs_named(self, name: str) -> int:
        wanted = name.rpartition("-")[2]
        return sum((store / "local" / wanted / "claim").exists() for store in self.stores[-1:])

    def seen_text(self) -> str:
        store = self.stores[-1]
        text = "".join(path.read_text(errors="replace") for path in store.rglob("*") if path.is_file())
        arguments = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
        return text + "".join(argument.decode(errors="replace") for argument in arguments)

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        """Ask about the job from another machine, as with a home directory shared by login nodes."""
        made, here = list(self.made), self.made[-1].host
        for platform in made:
            platform.host = "another-host"
        try:
            yield
        finally:
            for platform in made:
                platform.host = here

    def remove(self, platform: Platform, job: Any) -> bool:
        directory = self.stores[-1] / "local" / job.id
        shutil.rmtree(directory.rename(directory.with_suffix(".gone")), ignore_errors=True)  # it is still written to
        return True


RIG = LocalRig
