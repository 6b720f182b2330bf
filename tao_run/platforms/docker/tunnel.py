"""A way to a daemon on another host: the system's OpenSSH forwards its socket to a private one here."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path

from tao_run.clock import Clock
from tao_run.errors import BackendUnreachable, CredentialRefused, NotInstalled
from tao_run.platforms.docker.endpoint import SshTarget, ssh_target
from tao_run.redact import redact

_OPTIONS = {
    "BatchMode": "yes",
    "ExitOnForwardFailure": "yes",
    "ControlPath": "none",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "3",
}
_START_SECONDS = 60.0
_REFUSED = ("permission denied", "too many authentication failures", "no supported authentication")


class Tunnel:
    """One ssh process per daemon. It ends with this process: its remote side waits for our stdin."""

    def __init__(self, endpoint: str, clock: Clock) -> None:
        self._target = ssh_target(endpoint)
        self._clock = clock
        self._directory = Path(tempfile.mkdtemp(prefix="tao-run-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        weakref.finalize(self, _end, self._directory, self._processes)

    def url(self) -> str:
        """The address to connect to, the tunnel up. Raises BackendUnreachable, CredentialRefused, NotInstalled.

        A tunnel that broke is built anew, under a new address: connections to the old one are dead.
        """
        if not self._processes or self._processes[-1].poll() is not None:
            self._start(self._directory / f"{len(self._processes) + 1}.sock")
        return f"unix://{self._directory / f'{len(self._processes)}.sock'}"

    def stop(self) -> None:
        """End the ssh process; `url` starts a new one."""
        _kill(self._processes)

    def _start(self, socket: Path) -> None:
        if shutil.which("ssh") is None:
            raise NotInstalled("ssh:// needs OpenSSH's client", "install it: apt-get install openssh-client")
        errors = self._directory / "ssh.log"
        with errors.open("wb") as log:
            process = subprocess.Popen(
                _command(self._target, socket),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        self._wait(process, socket, errors)

    def _wait(self, process: subprocess.Popen[bytes], socket: Path, errors: Path) -> None:
        give_up = self._clock.monotonic() + _START_SECONDS
        while not socket.exists():
            if process.poll() is not None or self._clock.monotonic() > give_up:
                process.kill()
                process.wait()
                raise _failure(self._target, errors.read_text(errors="replace"))
            self._clock.sleep(0.05)


def _command(target: SshTarget, socket: Path) -> list[str]:
    options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
    port = ["-p", str(target.port)] if target.port else []
    return ["ssh", "-T", *options, *port, "-L", f"{socket}:{target.socket}", "--", target.destination, "cat"]


def _failure(target: SshTarget, text: str) -> BackendUnreachable | CredentialRefused:
    lines = [line.strip() for line in redact(text).splitlines() if line.strip()]
    last = lines[-1] if lines else f"no connection within {_START_SECONDS:.0f} s"
    login = f"try `ssh {target.destination}` by hand"
    if any(phrase in text.lower() for phrase in _REFUSED):
        return CredentialRefused(f"ssh {target.destination}: {last}", f"{login}; a key without a password is needed")
    return BackendUnreachable(f"ssh {target.destination}: {last}", login)


def _end(directory: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    _kill(processes)
    shutil.rmtree(directory, ignore_errors=True)


def _kill(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()
