"""Brev: the double of its CLI, one instance that exists, containers as processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tao_run.clock import Clock
from tao_run.credentials import Credentials
from tao_run.jobs.store import Store
from tao_run.platforms.base import Platform
from tao_run.platforms.brev import BrevSDK
from tests.conformance.rig import CANARY, Rig
from tests.fakes.brev import FakeBrev

ALWAYS = 10**6
# where a secret is meant to be: the 0600 file on its way, and what docker gives to the container
_MEANT = ("env", "login", "config.json", "credentials.json")


class BrevRig(Rig):
    name = "brev"
    multi_node = False

    def start(self, directory: Path) -> None:
        self.cloud = FakeBrev(directory / "brev")
        self.cloud.add("box", "gpu_8x_h100")
        self.saved = {name: os.environ.get(name) for name in ("PATH", "HOME")}
        os.environ.update({name: self.cloud.environ[name] for name in self.saved})

    def stop(self) -> None:
        self.cloud.close()
        os.environ.update({name: value for name, value in self.saved.items() if value is not None})

    def environ(self) -> Mapping[str, str]:
        return {"HF_TOKEN": CANARY}

    def options(self) -> Mapping[str, Any]:
        return {"instance": "box"}

    def fields(self) -> Mapping[str, Any]:
        return {"image": "mini:1"}

    def make(self, credentials: Credentials, store: Store, clock: Clock) -> Platform:
        return BrevSDK(credentials=credentials, store=store, clock=clock)

    def requests(self) -> int | None:
        return len([call for call in self.cloud.calls() if call["argv"][0] != "ssh"])

    def jobs_named(self, name: str) -> int:
        return sum((top / "docker" / "containers" / name).is_dir() for top in self.cloud.everywhere())

    def seen_text(self) -> str:
        files = [path for path in self.cloud.root.rglob("*") if path.is_file() and path.name not in _MEANT]
        text = "".join(path.read_text(errors="replace") for path in files if "log.jsonl" not in path.name)
        arguments = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
        return text + "".join(argument.decode(errors="replace") for argument in arguments)

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        for command in ("ls", "search", "copy"):
            self.cloud.fail(command, "network", times=ALWAYS)
        self.cloud.fail("ssh", "refused", times=ALWAYS)
        try:
            yield
        finally:
            self.cloud.mend()

    @contextlib.contextmanager
    def refused(self) -> Iterator[None]:
        good = self.cloud.cloud.read()["good_tokens"]
        self.cloud.expire_login()
        try:
            yield
        finally:
            self.cloud.set(good_tokens=good)

    @contextlib.contextmanager
    def _lost_reply(self) -> Iterator[None]:
        # two commands go before the one that starts the job; the CLI itself runs that one twice
        self.cloud.fail("ssh", "lost_reply", times=2, skip=2)
        try:
            yield
        finally:
            left = [fault["times"] for fault in self.cloud.cloud.read()["faults"]]
            self.cloud.mend()
        assert left == [0], "the planned fault did not happen"

    def lost_reply(self) -> AbstractContextManager[None]:
        return self._lost_reply()

    def cut_streams(self) -> bool:
        return self.cloud.cut("docker logs") > 0

    def remove(self, platform: Platform, job: Any) -> bool:
        assert isinstance(platform, BrevSDK)
        platform.fleet.cli.exec("box", f"docker rm -f {job.name}")
        return True


RIG = BrevRig
