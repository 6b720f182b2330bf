"""A real Kubernetes API server for tests, and a node on a private dockerd that really runs Jobs.

`python -m tests.services.kubernetes` builds the binaries, once; `scripts/test` starts that early, in the background.
"""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.services.docker import DockerService, can_run_docker, docker_service, free_port

SCRIPTS = Path(__file__).parent / "kubernetes"
PARTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
#: where the binaries are kept: the user's cache, whatever HOME a test sets
BINARIES = Path(
    os.environ.get("TAO_RUN_KUBERNETES_BIN")
    or Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "tao-run-tests" / "kubernetes-1.20.2"
)
#: seconds a test session waits for a build that is under way
PATIENCE = float(os.environ.get("TAO_RUN_KUBERNETES_WAIT", "600"))


def can_build() -> bool:
    """Root on Debian 12, whose source package and compiler the build needs."""
    release = Path("/etc/os-release")
    return can_run_docker() and release.is_file() and 'VERSION_ID="12"' in release.read_text()


def is_complete() -> bool:
    return all(os.access(BINARIES / part, os.X_OK) for part in PARTS)


def build() -> int:
    """Build in the foreground, at low priority; while it runs its process id is in `building`."""
    if is_complete() or not can_build():
        return 0
    BINARIES.mkdir(parents=True, exist_ok=True)
    marker = BINARIES / "building"
    marker.write_text(str(os.getpid()))
    command = ["nice", "-n", "10", str(SCRIPTS / "k8s-build"), str(BINARIES)]
    try:
        with (BINARIES / "build.log").open("w") as log:
            return subprocess.run(command, stdout=log, stderr=log, check=False).returncode
    finally:
        marker.unlink(missing_ok=True)


def _is_building() -> bool:
    try:
        os.kill(int((BINARIES / "building").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def require_binaries() -> Path:
    """The binaries; waits for a build that is under way, skips where there is none."""
    if not can_run_docker():
        pytest.skip("a real Kubernetes needs root on Linux and apt-get")
    deadline = time.monotonic() + PATIENCE
    while not is_complete() and _is_building():
        if time.monotonic() > deadline:
            pytest.skip(f"the build of kube-apiserver has not ended within {PATIENCE:.0f} s")
        time.sleep(1)
    if not is_complete():
        log = BINARIES / "build.log"
        ended = f"; the last build: {log.read_text()[-300:].strip()}" if log.is_file() else ""
        pytest.skip(f"no kube-apiserver: `python -m tests.services.kubernetes` builds it (5 minutes, Debian 12){ended}")
    return BINARIES


@dataclass(frozen=True)
class KubernetesService:
    """A cluster of one node. Contexts of its kubeconfig: test (all rights), alice (none yet), nobody (401)."""

    directory: Path
    port: int
    docker: DockerService

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def pid(self, name: str) -> int:
        return int((self.directory / f"{name}.pid").read_text())


def _run(script: str, *args: str) -> None:
    done = subprocess.run([str(SCRIPTS / script), *args], text=True, capture_output=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{script} failed: {done.stdout[-1000:]}{done.stderr[-2000:]}")


@contextmanager
def kubernetes_service() -> Iterator[KubernetesService]:
    """A cluster of one's own: its images are those of the Docker service (mini:1, py:1)."""
    found = str(require_binaries())
    missing = [tool for tool in ("etcd", "jq", "openssl", "curl") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: `python -m tests.services.kubernetes` does")
    directory = tempfile.mkdtemp(prefix="tao-k8s-")
    port = str(free_port())
    with docker_service() as docker:
        try:
            _run("k8s-up", directory, found, port, str(free_port()), "node")
            _run("k8s-node-up", directory, found, port, str(free_port()), docker.host.removeprefix("unix://"))
            yield KubernetesService(Path(directory), int(port), docker)
        finally:
            _run("k8s-down", directory)


@functools.lru_cache
def shared_cluster() -> KubernetesService:
    """The one cluster of this process, up until it ends: starting one takes longer than most tests."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(kubernetes_service())


@pytest.fixture(scope="session")
def kubernetes_cluster() -> KubernetesService:
    """The session's cluster."""
    return shared_cluster()


if __name__ == "__main__":
    sys.exit(build())
