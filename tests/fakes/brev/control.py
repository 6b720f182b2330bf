"""The test's side of the brev double: set it up, plan faults, look at what happened."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.fakes.brev import catalog
from tests.fakes.brev.cloud import Cloud

REPOSITORY = Path(__file__).parents[3]
TYPES = [
    catalog.row("g5.xlarge", "A10G", 1, 24, 1.01),
    catalog.row("g6e.xlarge", "L40S", 1, 48, 1.86),
    catalog.row("massedcompute_L40S", "L40S", 1, 48, 0.88, "shadeform"),
    catalog.row("g6e.12xlarge", "L40S", 4, 48, 10.49),
    catalog.row("hyperstack_A100_80G", "A100", 1, 80, 1.35, "shadeform"),
    catalog.row("a2-highgpu-2g", "A100", 2, 40, 7.35, "gcp"),
    catalog.row("gpu_8x_h100", "H100", 8, 80, 24.0, "lambda-labs"),
]
TOKEN = "brev-login-token-0123456789"
_BREV = """#!/bin/sh
FAKE_BREV_ROOT={root} exec {python} -S -E -c 'import sys; sys.path.insert(0, "{repository}")
from tests.fakes.brev.cli import main
sys.exit(main(sys.argv[1:]))' "$@"
"""
_DOCKER = """#!/bin/sh
exec {python} -S -E {docker} "$@"
"""
_NVIDIA_SMI = """#!/bin/sh
i=0
while [ $i -lt "$FAKE_GPUS" ]; do echo $i; i=$((i + 1)); done
"""


class FakeBrev:
    """One Brev cloud below `root`; `bin` goes on the PATH, `home` is where the CLI keeps its login."""

    def __init__(self, root: Path, docker_host: str | None = None) -> None:
        self.root = root
        self.cloud = Cloud(root)
        self.home, self.bin = root / "user", root / "bin"
        for path in (self.home, self.bin, root / "tools", root / "instances", root / "running"):
            path.mkdir(parents=True)
        names = {"root": root, "python": sys.executable, "repository": REPOSITORY}
        self._tool(self.bin / "brev", _BREV.format(**names))
        self._tool(root / "tools" / "nvidia-smi", _NVIDIA_SMI)
        if docker_host is None:
            docker = Path(__file__).with_name("docker.py")
            self._tool(root / "tools" / "docker", _DOCKER.format(python=sys.executable, docker=docker))
        else:
            (root / "docker_host").write_text(docker_host)
        self.set(types=TYPES, good_tokens=[TOKEN])
        self.log_in()

    @staticmethod
    def _tool(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    @property
    def environ(self) -> dict[str, str]:
        """The environment for a process that uses this cloud."""
        return {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.home)}

    def set(self, **settings: Any) -> None:
        """Change the cloud: boot_polls, ssh_failures, delete_polls, no_capacity, types, good_tokens, ..."""
        with self.cloud.edit() as state:
            state.update(settings)

    # -- login -----------------------------------------------------------------------------------------

    def log_in(self, token: str = TOKEN) -> None:
        """As after an interactive `brev login`."""
        path = self.home / ".brev" / "credentials.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"access_token": token, "refresh_token": ""}))

    def expire_login(self, good: str | None = None) -> None:
        """The saved session ends; only the token `good` (if any) would make a new one."""
        self.set(good_tokens=[good] if good else [])

    # -- instances -------------------------------------------------------------------------------------

    def add(self, name: str, kind: str = "g6e.xlarge", status: str = "RUNNING", **fields: Any) -> None:
        """An instance that exists already."""
        problem = catalog.create(self.cloud, name, kind)
        assert not problem, problem
        self.change(name, status=status, **fields)

    def change(self, name: str, **fields: Any) -> None:
        """Set fields of an instance: status, health, ssh_failures, org, ..."""
        with self.cloud.edit() as state:
            next(item for item in state["workspaces"] if item["name"] == name).update(fields)

    def vanish(self, name: str) -> None:
        """Somebody deletes an instance in the console."""
        with self.cloud.edit() as state:
            state["workspaces"] = [item for item in state["workspaces"] if item["name"] != name]

    def names(self) -> list[str]:
        """The instances that cost money now."""
        return [item["name"] for item in self.cloud.read()["workspaces"] if item["status"] != "DELETING"]

    def instance(self, name: str) -> Path:
        """The root directory of an instance."""
        found = next(item for item in self.cloud.read()["workspaces"] if item["name"] == name)
        return self.cloud.instance_dir(found)

    def everywhere(self) -> list[Path]:
        """Root directories of all instances that ever were."""
        return sorted((self.root / "instances").iterdir())

    # -- faults and observation --------------------------------------------------------------------------

    def fail(self, on: str, kind: str, times: int = 1, **details: Any) -> None:
        """Plan a fault: of a command (network, unauthorized, server, garbage, hang, lost_reply), of `ssh`
        (refused, cut after `lines`, lost_reply) or of `scp`. `skip` calls go well before it."""
        with self.cloud.edit() as state:
            state["faults"].append({"on": on, "kind": kind, "times": times, **details})

    def mend(self) -> None:
        """Take back all planned faults."""
        self.set(faults=[])

    def cut(self, containing: str) -> int:
        """Break the connections whose remote command contains a text, as a network would. Returns how many."""
        broken = 0
        for path in (self.root / "running").iterdir():
            if containing in path.read_text():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(int(path.name), signal.SIGKILL)
                    broken += 1
        return broken

    def calls(self, command: str | None = None) -> list[dict[str, Any]]:
        """Every call so far: argv, env, stdin; those of one command if named (`ssh` for the far side)."""
        path = self.root / "calls.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [call for call in found if command is None or (call["argv"] or [""])[0] == command]

    def docker_calls(self) -> list[list[str]]:
        """The argv of every docker command on every instance."""
        lines = []
        for top in self.everywhere():
            path = top / "docker" / "calls.jsonl"
            lines += path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["argv"] for line in lines]

    def close(self) -> None:
        """End every container process of every instance."""
        for state in (self.root / "instances").glob("*/docker/containers/*/state.json"):
            pid = json.loads(state.read_text()).get("Pid")
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
