"""The slurm platform on a real cluster of four nodes, over ssh, with a stand-in for pyxis."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from tao_run.clock import Clock
from tao_run.credentials import Credentials
from tao_run.jobs.store import Store
from tao_run.platforms.base import Platform
from tao_run.platforms.slurm import SlurmSDK
from tests.conformance.rig import CANARY, Rig
from tests.services.slurm import HOME, MAIN, USER, running_cluster


class SlurmRig(Rig):
    name = "slurm"
    poll_bound = 1
    enforces_max_time = False  # whole minutes, looked at every half minute

    def start(self, directory: Path) -> None:
        self._stack = ExitStack()
        self.cluster = self._stack.enter_context(running_cluster("tao-run-slurm", MAIN))
        self.base = HOME / f"conformance-{directory.parent.name}"

    def stop(self) -> None:
        self._stack.close()

    def environ(self) -> Mapping[str, str]:
        return {
            "SLURM_USER": USER,
            "SLURM_HOSTNAME": "login-a,login-b",
            "SLURM_SSH_CONFIG": str(self.cluster.ssh_config),
            "SLURM_BASE_RESULTS_DIR": str(self.base),
            "HF_TOKEN": CANARY,
        }

    def fields(self) -> Mapping[str, Any]:
        return {"image": "nvcr.io/nvidia/tao/tao-toolkit:6.0"}

    def make(self, credentials: Credentials, store: Store, clock: Clock) -> Platform:
        return SlurmSDK(credentials=credentials, store=store, clock=clock)

    def requests(self) -> int | None:
        return self.cluster.sessions()

    def jobs_named(self, name: str) -> int:
        return len(self.cluster.run("squeue", "-h", "-t", "all", "-n", name, "-o", "%i").split())

    def seen_text(self) -> str:
        """All argv, SLURM's state, spool and logs, and the job directories but for the 0600 file."""
        places = [self.cluster.root / part for part in ("state", "spool", "log")]
        files = [path for place in [*places, self.base] for path in place.rglob("*") if path.is_file()]
        meant = [path for path in files if path.name == "env"]
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in meant if path.exists())
        read = [path for path in files if path not in meant]
        arguments = list(Path("/proc").glob("[0-9]*/cmdline"))
        return b"\n".join(_content(path) for path in [*read, *arguments]).decode(errors="replace")

    def unreachable(self) -> AbstractContextManager[None]:
        return self.cluster.stopped("sshd-a", "sshd-b")

    def refused(self) -> AbstractContextManager[None]:
        return self.cluster.no_key()

    def lost_reply(self) -> AbstractContextManager[None]:
        return self.cluster.lost_reply()

    def cut_streams(self) -> bool:
        self.cluster.drop_sessions()
        return True

    def remove(self, platform: Platform, job: Any) -> bool:
        self.cluster.run("scancel", job.backend_id)
        return True


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process ended, or SLURM renamed its file
        return b""


RIG = SlurmRig
