"""The lepton platform on the fake workspace, whose jobs really run as local processes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tao_run.clock import Clock
from tao_run.credentials import Credentials
from tao_run.jobs.store import Store
from tao_run.platforms.base import Platform
from tao_run.platforms.lepton import LeptonSDK
from tests.conformance.rig import CANARY, Rig
from tests.fakes.lepton import FakeLepton, Fault, error

_HOLD_SECRETS = ("/usersecrets", "/imagepullsecrets")  # the bodies that are meant to hold a value


class LeptonRig(Rig):
    name = "lepton"

    def start(self, directory: Path) -> None:
        self.fake = FakeLepton().start()

    def stop(self) -> None:
        self.fake.stop()

    def environ(self) -> Mapping[str, str]:
        return {
            "LEPTON_WORKSPACE_ID": self.fake.workspace_id,
            "LEPTON_AUTH_TOKEN": self.fake.token,
            "LEPTON_WORKSPACE_URL": self.fake.url,
            "HF_TOKEN": CANARY,
            "NGC_KEY": CANARY,
        }

    def fields(self) -> Mapping[str, Any]:
        return {"image": "nvcr.io/nvidia/tao/tao-toolkit:pyt"}

    def make(self, credentials: Credentials, store: Store, clock: Clock) -> Platform:
        return LeptonSDK(credentials=credentials, store=store, clock=clock)

    def requests(self) -> int | None:
        return len(self.fake.requests)

    def jobs_named(self, name: str) -> int:
        return sum(job.metadata["name"] == name for job in self.fake.workspace.jobs.values())

    def seen_text(self) -> str:
        """All that the service was sent but the secrets' own bodies, what it shows, and all argv."""
        asked = [request for request in self.fake.requests if not request.path.endswith(_HOLD_SECRETS)]
        sent = "\n".join(f"{request.path} {request.query} {request.body}" for request in asked)
        workspace = self.fake.workspace
        jobs = json.dumps([job.document() for job in workspace.jobs.values()], ensure_ascii=False)
        shown = json.dumps([workspace.list_secrets(), workspace.list_pull_secrets()], ensure_ascii=False)
        arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        return "\n".join([sent, jobs, shown]) + b"\n".join(arguments).decode(errors="replace")

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        self.fake.faults.add(Fault(drop="before", times=None))
        try:
            yield
        finally:
            self.fake.faults.clear()

    @contextlib.contextmanager
    def refused(self) -> Iterator[None]:
        self.fake.faults.add(error(401, "invalid token", times=None))
        try:
            yield
        finally:
            self.fake.faults.clear()

    @contextlib.contextmanager
    def lost_reply(self) -> Iterator[None]:
        self.fake.faults.add(Fault(method="POST", path="/jobs$", drop="after"))
        yield
        self.fake.faults.clear()

    def cut_streams(self) -> bool:
        return self.fake.cut_streams() > 0

    def remove(self, platform: Platform, job: Any) -> bool:
        workspace = self.fake.workspace
        gone = workspace.jobs[job.backend_id]
        workspace.delete_job(gone)
        del workspace.jobs[job.backend_id]
        return True


RIG = LeptonRig
