"""Fixtures: a real SLURM cluster on loopback, brought up once for all test processes, ended by the last of them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

SCRIPTS = Path(__file__).parent / "slurm"
USER = "hpcuser"
HOME = Path("/home") / USER
MAIN = {"SLURM_TEST_BASE": "16800"}
# No accounting, no pyxis, one node: what small sites have. Tests may also stop its daemons.
PLAIN = {
    "SLURM_TEST_BASE": "17800",
    "SLURM_TEST_DB": "0",
    "SLURM_TEST_CONTAINER": "0",
    "SLURM_TEST_CGROUP": "0",
    "SLURM_TEST_NODES": "1",
    "SLURM_TEST_MINJOBAGE": "2",
    "SLURM_TEST_MESSAGETIMEOUT": "2",
}


@dataclass(frozen=True)
class Cluster:
    """A running test cluster: where its state is, and how it was configured."""

    root: Path
    knobs: Mapping[str, str]

    @property
    def ssh_config(self) -> Path:
        """An OpenSSH client configuration with the hosts login-a and login-b."""
        return self.root / "ssh" / "config"

    @property
    def containers(self) -> list[str]:
        """One line per task that asked for a container: what it asked for."""
        return (self.root / "log" / "containers.log").read_text(encoding="utf-8").splitlines()

    @property
    def cgroups(self) -> bool:
        """Whether memory limits are enforced, so that OUT_OF_MEMORY is real."""
        return "SLURM_TEST_CGROUP_ACTIVE=1" in (self.root / "env.sh").read_text(encoding="utf-8")

    def run(self, *command: str) -> str:
        """The output of a SLURM command run as the administrator (root)."""
        environ = {**os.environ, "SLURM_CONF": str(self.root / "etc" / "slurm.conf")}
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout

    def forget(self, job_id: str) -> None:
        """Make slurmctld forget an ended job now, as it does by itself after five minutes."""
        path = self.root / "etc" / "slurm.conf"
        whole = path.read_text(encoding="utf-8")
        _replace(path, re.sub(r"MinJobAge=\d+", "MinJobAge=2", whole))
        try:
            self.run("scontrol", "reconfigure")
            deadline = time.monotonic() + 60
            while job_id in self.run("squeue", "-h", "-t", "all", "-o", "%i").split():
                assert time.monotonic() < deadline, f"slurmctld still knows {job_id}"
                time.sleep(0.3)
        finally:
            _replace(path, whole)
            self.run("scontrol", "reconfigure")

    def resume_nodes(self) -> None:
        """Nodes that a test has drained or taken down come back."""
        for node in set(self.run("sinfo", "-h", "-N", "-t", "down,drain", "-o", "%N").split()):
            self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def as_user(self, script: str, host: str = "login-b") -> str:
        """The output of bash text run by the login user on a login host, without the host's welcome."""
        command = ["ssh", "-F", str(self.ssh_config), "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", host, "bash -s"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
        return done.stdout.partition("\n")[2]

    def stop(self, *daemons: str) -> None:
        """End daemons (`sshd-a` with all its sessions, `slurmctld`, ...)."""
        self._script("slurm-down", *daemons)

    def start(self) -> None:
        """Start whatever is down."""
        self._script("slurm-up")

    @contextmanager
    def stopped(self, *daemons: str) -> Iterator[None]:
        """Some daemons are down inside the block."""
        self.stop(*daemons)
        try:
            yield
        finally:
            self.start()

    def drop_sessions(self) -> None:
        """Break every ssh connection; the login hosts stay up."""
        self._script("slurm-down", "--sessions")

    def sessions(self) -> int:
        """How many commands the login hosts have run over ssh so far."""
        logs = [(self.root / "log" / f"sshd-{host}.out").read_text(encoding="utf-8", errors="replace") for host in "ab"]
        return sum(log.count("Starting session: command") for log in logs)

    @contextmanager
    def no_key(self) -> Iterator[None]:
        """The user's key is not accepted inside the block."""
        keys = HOME / ".ssh" / "authorized_keys"
        aside = keys.with_name("aside")
        keys.rename(aside)
        try:
            self.drop_sessions()
            yield
        finally:
            aside.rename(keys)

    @contextmanager
    def lost_reply(self) -> Iterator[None]:
        """The next sbatch succeeds, and its connection breaks before the answer."""
        flag = HOME / ".lose-reply"
        flag.touch()
        shutil.chown(flag, USER)
        try:
            yield
        finally:
            assert not flag.exists(), "no reply was lost"

    def _script(self, name: str, *arguments: str) -> None:
        environ = {**os.environ, **self.knobs, "SLURM_TEST_ROOT": str(self.root)}
        done = subprocess.run(
            [str(SCRIPTS / name), *arguments], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed:\n{done.stdout[-2000:]}")


def _replace(path: Path, text: str) -> None:
    """Daemons read their configuration at any moment: they must never see half of it."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.chmod(0o644)
    new.replace(path)


def reason_not_here() -> str:
    """Why no cluster can run on this machine; empty if one can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "a SLURM cluster needs root"
    if shutil.which("dpkg-query") is None:
        return "the SLURM cluster's scripts are for Debian"
    if shutil.which("slurmctld") is None and shutil.which("apt-get") is None:
        return "slurmctld is not installed and there is no apt-get"
    return ""


@contextmanager
def running_cluster(name: str, knobs: Mapping[str, str]) -> Iterator[Cluster]:
    """A cluster that may be shared with other test processes; skips where none can run."""
    if reason_not_here():
        pytest.skip(reason_not_here())
    root = Path(tempfile.gettempdir()) / name
    cluster = Cluster(root, knobs)
    with _shared(root.with_suffix(".lock")) as users:
        cluster.start()
        fcntl.flock(users, fcntl.LOCK_SH)
        yield cluster
        if _last(users) and not os.environ.get("TAO_RUN_KEEP_SERVICES"):
            cluster.stop()


@contextmanager
def _shared(path: Path) -> Iterator[IO[str]]:
    """A lock file, held exclusively at first: test processes start and share one cluster."""
    with path.open("w") as users:
        fcntl.flock(users, fcntl.LOCK_EX if _last(users) else fcntl.LOCK_SH)
        yield users


def _last(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    """Four nodes with GPUs, accounting, containers, two login hosts."""
    with running_cluster("tao-run-slurm", MAIN) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def plain_cluster() -> Iterator[Cluster]:
    """One node, no accounting, no containers, and a memory of two seconds for finished jobs."""
    with running_cluster("tao-run-slurm-plain", PLAIN) as cluster:
        yield cluster
