"""Platform kubernetes on the wire-level fake: Indexed Jobs, faults, and pods that are local processes."""

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
from tao_run.platforms.kubernetes.logs import Timing
from tests.conformance.rig import CANARY, Rig
from tests.fakes.kubernetes import FakeKubernetes, Fault

_QUICK = Timing(stall=2.0, look=0.3, retry=0.1, tell=1.0, give_up=10.0, batch=0.05)
_SPOKEN = ("jobs", "pods", "services", "configmaps", "events")


class KubernetesRig(Rig):
    name = "kubernetes"
    patience = 45.0

    def start(self, directory: Path) -> None:
        self._stack = contextlib.ExitStack()
        self._fake = self._stack.enter_context(FakeKubernetes())
        for node in ("node1", "node2"):
            self._fake.node(node)
        self._config = self._fake.kubeconfig(directory / "kubeconfig")

    def stop(self) -> None:
        self._stack.close()

    def environ(self) -> Mapping[str, str]:
        return {"KUBECONFIG": str(self._config), "HF_TOKEN": CANARY}

    def fields(self) -> Mapping[str, Any]:
        return {"image": "registry.test/tao:1"}

    def make(self, credentials: Credentials, store: Store, clock: Clock) -> Platform:
        return KubernetesSDK(credentials=credentials, store=store, clock=clock, timing=_QUICK)

    def requests(self) -> int | None:
        return len(self._fake.calls)

    def jobs_named(self, name: str) -> int:
        return sum(job["metadata"]["name"] == name for job in self._fake.objects.select("jobs", None))

    def seen_text(self) -> str:
        objects = [self._fake.objects.select(resource, None) for resource in _SPOKEN]
        calls = [(c.path, c.query, c.body) for c in self._fake.calls if "/secrets" not in c.path]
        argv = [
            path.read_bytes().replace(b"\0", b" ").decode(errors="replace") for path in Path("/proc").glob("*/cmdline")
        ]
        return json.dumps([objects, calls, argv], ensure_ascii=False)

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        self._fake.faults.add(Fault("*", "", "reset", times=10**9))
        yield
        self._fake.faults.clear()

    @contextlib.contextmanager
    def _refused(self) -> Iterator[None]:
        admin = self._fake.users.pop("admintoken")
        yield
        self._fake.users["admintoken"] = admin

    def refused(self) -> AbstractContextManager[None]:
        return self._refused()

    @contextlib.contextmanager
    def _lost(self) -> Iterator[None]:
        self._fake.faults.add(Fault("POST", "/jobs", "lost"))
        yield
        self._fake.faults.clear()

    def lost_reply(self) -> AbstractContextManager[None]:
        return self._lost()

    def cut_streams(self) -> bool:
        self._fake.cut_logs()
        return True

    def remove(self, platform: Platform, job: Any) -> bool:
        self._fake.objects.delete("jobs", "default", job.name, {})
        return True


RIG = KubernetesRig
