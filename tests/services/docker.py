"""A private dockerd and a registry with login for tests: real servers on loopback, started once per session."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "docker"


def _run(script: str, *args: str, **variables: str) -> str:
    done = subprocess.run(
        [str(SCRIPTS / script), *args], env={**os.environ, **variables}, text=True, capture_output=True, timeout=300
    )
    if done.returncode != 0:
        raise RuntimeError(f"{script} failed: {done.stderr[-2000:]}")
    return done.stdout.strip()


@dataclass(frozen=True)
class DockerService:
    """One dockerd with its own socket and data; containers survive a restart of it (live restore)."""

    directory: Path

    @property
    def host(self) -> str:
        """What DOCKER_HOST must be."""
        return f"unix://{self.directory}/docker.sock"

    @property
    def pid(self) -> int:
        return int((self.directory / "docker.pid").read_text())

    def start(self, *args: str, live_restore: bool = True) -> None:
        """Start dockerd if it is not up; `args` are its own."""
        restore = ["--live-restore"] if live_restore else []
        _run("docker-up", *restore, *args, DOCKER_DIR=str(self.directory))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End dockerd alone: its containers go on."""
        pid = self.pid
        os.kill(pid, number)
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            time.sleep(0.02)

    def make_images(self) -> None:
        """mini:1 (busybox, bash), py:1 (with Python 3) and pause:1."""
        _run("make-images", DOCKER_HOST=self.host)

    def cli(self, *args: str) -> str:
        """Output of one command of Docker's own client, the second opinion of the tests."""
        command = ["docker", "-H", self.host, *args]
        return subprocess.run(command, check=True, text=True, capture_output=True, timeout=120).stdout

    def close(self) -> None:
        _run("docker-down", "--wipe", DOCKER_DIR=str(self.directory))


@dataclass(frozen=True)
class PodmanService(DockerService):
    """Podman's API in Docker's place."""

    @property
    def host(self) -> str:
        return f"unix://{self.directory}/podman.sock"

    @property
    def pid(self) -> int:
        return int((self.directory / "pid").read_text())

    def start(self, *args: str, live_restore: bool = True) -> None:
        _run("podman-up", PODMAN_DIR=str(self.directory))

    def close(self) -> None:
        containers = self.cli("ps", "-aq").split()
        if containers:
            self.cli("rm", "-f", *containers)
        self.stop()
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for point in sorted((path for path in mounted if path.startswith(f"{self.directory}/")), reverse=True):
            subprocess.run(["umount", "-l", point], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


@dataclass(frozen=True)
class Registry:
    """A registry that refuses everybody but this user."""

    address: str
    user: str = "bob"
    password: str = "s3cret"


def can_run_docker() -> bool:
    """Root on Linux, with dockerd or apt-get to install it."""
    root = sys.platform == "linux" and os.geteuid() == 0
    return root and bool(shutil.which("dockerd") or shutil.which("apt-get"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def docker_service(kind: type[DockerService] = DockerService) -> Iterator[DockerService]:
    """A dockerd of one's own, for tests that restart or break it; or a Podman."""
    if not can_run_docker():
        pytest.skip("needs root on Linux and dockerd (or apt-get)")
    # Not pytest's own directory: a socket's path must stay under 108 characters.
    service = kind(Path(tempfile.mkdtemp(prefix="tao-docker-")))
    try:
        service.start()
        service.make_images()
        yield service
    finally:
        service.close()


@contextmanager
def registry_service(directory: Path) -> Iterator[Registry]:
    if not can_run_docker():
        pytest.skip("needs root on Linux and docker-registry (or apt-get)")
    address = _run("registry-up", REGISTRY_DIR=str(directory), REGISTRY_PORT=str(free_port()))
    try:
        yield Registry(address.splitlines()[-1])
    finally:
        os.kill(int((directory / "pid").read_text()), signal.SIGTERM)


@dataclass(frozen=True)
class SshServer:
    """An sshd that takes one key. With `bin` first on PATH, `ssh` knows that key and the host's."""

    directory: Path
    port: int

    @property
    def bin(self) -> Path:
        return self.directory / "bin"


@contextmanager
def ssh_server(directory: Path) -> Iterator[SshServer]:
    """A login on this machine, for daemons reached over ssh."""
    if not can_run_docker():
        pytest.skip("needs root on Linux and sshd (or apt-get)")
    server = SshServer(directory, free_port())
    _run("sshd-up", SSHD_DIR=str(directory), SSHD_PORT=str(server.port))
    try:
        yield server
    finally:
        os.kill(int((directory / "pid").read_text()), signal.SIGTERM)


@pytest.fixture(scope="session")
def dockerd() -> Iterator[DockerService]:
    """The session's dockerd with the test images."""
    with docker_service() as service:
        yield service


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """The session's registry with login."""
    with registry_service(tmp_path_factory.mktemp("registry")) as service:
        yield service
