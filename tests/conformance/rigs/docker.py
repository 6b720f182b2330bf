"""The docker platform on a real dockerd, behind a proxy that can cut streams and lose replies.

With TAO_RUN_TEST_ENGINE=podman the same on Podman's API.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from tao_run.clock import Clock
from tao_run.credentials import Credentials
from tao_run.jobs.store import Store
from tao_run.platforms.base import Platform
from tao_run.platforms.docker import DockerSDK
from tests.conformance.rig import CANARY, Rig
from tests.fakes.docker.proxy import DockerProxy
from tests.services.docker import DockerService, PodmanService, docker_service


class DockerRig(Rig):
    name = "docker"
    multi_node = False
    poll_bound = 1

    def start(self, directory: Path) -> None:
        self._stack = ExitStack()
        podman = os.environ.get("TAO_RUN_TEST_ENGINE") == "podman"
        self.service = self._stack.enter_context(docker_service(PodmanService if podman else DockerService))
        self.proxy = DockerProxy(self.service.host)
        self._stack.callback(self.proxy.close)

    def stop(self) -> None:
        self._stack.close()

    def environ(self) -> Mapping[str, str]:
        return {"HF_TOKEN": CANARY}

    def options(self) -> Mapping[str, Any]:
        return {"host": self.proxy.host, "network": "host", "pull_policy": "never", "stop_seconds": 2}

    def fields(self) -> Mapping[str, Any]:
        return {"image": "py:1"}

    def make(self, credentials: Credentials, store: Store, clock: Clock) -> Platform:
        return DockerSDK(credentials=credentials, store=store, clock=clock)

    def requests(self) -> int | None:
        return len(self.proxy.requests)

    def jobs_named(self, name: str) -> int:
        return len(self.service.cli("ps", "-aq", "--filter", f"name=^{name}$").split())

    def seen_text(self) -> str:
        """Everything that inspect and the daemon's log tell, all argv, and the writable layers on the disk."""
        containers = self.service.cli("ps", "-aq").split()
        told = self.service.cli("inspect", *containers) if containers else ""
        arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        root = self.service.directory / "root"
        files = [path for path in root.glob("overlay*/*/diff/.tao-run/**/*") if path.is_file()]
        logs = [*self.service.directory.glob("*.log"), *(root / "containers").glob("*/*.json")]
        stored = [path.read_bytes() for path in [*files, *logs]]
        return told + b"\n".join([*arguments, *stored]).decode(errors="replace")

    def unreachable(self) -> AbstractContextManager[None]:
        return self.proxy.unreachable()

    def lost_reply(self) -> AbstractContextManager[None] | None:
        return self.proxy.lost_reply(r"^POST .*/start$")

    def cut_streams(self) -> bool:
        return self.proxy.cut(r"/logs\?") > 0

    def remove(self, platform: Platform, job: Any) -> bool:
        self.service.cli("rm", "-f", job.name)
        return True


RIG = DockerRig
