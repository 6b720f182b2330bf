"""Platform kubernetes on a real API server and a node that runs Jobs in containers (one pod each: it is 1.20)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tao_run.clock import Clock
from tao_run.credentials import Credentials
from tao_run.jobs.store import Store
from tao_run.platforms.base import Platform
from tao_run.platforms.kubernetes import KubernetesSDK
from tao_run.platforms.kubernetes.account import choose
from tao_run.platforms.kubernetes.client import Api, connect
from tao_run.platforms.kubernetes.logs import Timing
from tests.conformance.rig import CANARY, Rig
from tests.fakes.tcp import TcpProxy
from tests.services.kubernetes import shared_cluster

_TIMING = Timing(stall=5.0, look=0.5, retry=0.2, tell=3.0, give_up=30.0, batch=0.05)
_SPOKEN = ("jobs", "pods", "services", "configmaps", "events")


class KubernetesApiRig(Rig):
    name = "kubernetes"
    patience = 90.0
    multi_node = False

    def start(self, directory: Path) -> None:
        self._stack = contextlib.ExitStack()
        self._service = shared_cluster()
        self._proxy = TcpProxy(self._service.port)
        self._stack.callback(self._proxy.close)
        text = self._service.kubeconfig.read_text()
        self._config = directory / "kubeconfig"
        self._config.write_text(text.replace(f":{self._service.port}", f":{self._proxy.port}"))

    def stop(self) -> None:
        self._stack.close()

    def environ(self) -> Mapping[str, str]:
        return {"KUBECONFIG": str(self._config), "HF_TOKEN": CANARY}

    def fields(self) -> Mapping[str, Any]:
        return {"image": "py:1"}

    def options(self) -> Mapping[str, Any]:
        # without a network plugin a pod of its own network gets no address, and the kubelet would end it
        return {"pull_policy": "Never", "host_network": True}

    def make(self, credentials: Credentials, store: Store, clock: Clock) -> Platform:
        return KubernetesSDK(credentials=credentials, store=store, clock=clock, timing=_TIMING)

    def _api(self) -> Api:
        credentials = Credentials({"KUBECONFIG": str(self._service.kubeconfig)})
        return connect(choose(credentials), credentials)

    def requests(self) -> int | None:
        return None

    def jobs_named(self, name: str) -> int:
        return sum(job["metadata"]["name"] == name for job in self._api().list("jobs"))

    def seen_text(self) -> str:
        objects = [self._api().list(resource) for resource in _SPOKEN]
        logs = [path.read_text(errors="replace") for path in self._service.directory.glob("*.log")]
        argv = [
            path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if path.exists()
        ]
        return json.dumps([objects, logs, argv], ensure_ascii=False)

    def unreachable(self) -> AbstractContextManager[None]:
        return self._proxy.unreachable()

    @contextlib.contextmanager
    def _refused(self) -> Iterator[None]:
        text = self._config.read_text()
        self._config.write_text(text.replace("admintoken", "wrongtoken"))
        yield
        self._config.write_text(text)

    def refused(self) -> AbstractContextManager[None]:
        return self._refused()

    def cut_streams(self) -> bool:
        return self._proxy.cut() > 0

    def remove(self, platform: Platform, job: Any) -> bool:
        self._api().delete("jobs", job.name, job.backend_id)
        return True


RIG = KubernetesApiRig
