"""The ssh command line: the system's OpenSSH with the user's own configuration, and what its failures mean."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tao_run.credentials import Credentials, is_secret_name
from tao_run.errors import BackendUnreachable, CredentialError, CredentialRefused, NotInstalled, TaoRunError
from tao_run.redact import redact
from tao_run.userpaths import own_path

CONNECT_SECONDS = 15
PERSIST_SECONDS = 120
# the two things that ssh says before there is a connection (ssh.c, sshconnect.c)
_NO_CONNECTION = re.compile(r"ssh: (connect to host|Could not resolve hostname) ")
_LONGEST_SOCKET = 90  # sun_path has 104 to 108 bytes, and ssh appends 17 while it connects


@dataclass(frozen=True)
class SshSettings:
    """What of the ssh command can be set: another configuration file, a key, first-contact trust."""

    config: str = ""
    key: str = ""
    accept_new: bool = False

    @classmethod
    def read(cls, credentials: Credentials) -> SshSettings:
        """SLURM_SSH_CONFIG, SSH_KEY_PATH, SLURM_SSH_ACCEPT_NEW=1."""
        return cls(
            config=_expand(credentials.setting("SLURM_SSH_CONFIG")),
            key=_expand(credentials.setting("SSH_KEY_PATH")),
            accept_new=credentials.setting("SLURM_SSH_ACCEPT_NEW").lower() in ("1", "true", "yes"),
        )


def ssh_command(host: str, user: str, settings: SshSettings) -> list[str]:
    """The argv that logs in to `host` and runs the bash text on its standard input.

    Never asks anything (BatchMode). Host keys are checked as the user's configuration says; an unknown one
    is accepted only with `accept_new`, a changed one never. Raises NotInstalled without an ssh client.
    """
    binary = shutil.which("ssh")
    if binary is None:
        raise NotInstalled("the OpenSSH client is not installed", "apt-get install openssh-client")
    command = [binary, *(["-F", settings.config] if settings.config else []), "-T", "-l", user]
    command += [part for option in _options(settings) for part in ("-o", option)]
    if settings.key:
        command += ["-i", settings.key]
    name, port = split_port(host)
    command += ["-p", port] if port else []
    for option in _multiplexing(binary, settings.config, name, port, user):
        command += ["-o", option]
    return [*command, "--", name, "exec bash --noprofile --norc -s"]


def _options(settings: SshSettings) -> list[str]:
    options = ["BatchMode=yes", f"ConnectTimeout={CONNECT_SECONDS}", "ServerAliveInterval=15", "LogLevel=ERROR"]
    return [*options, *(["StrictHostKeyChecking=accept-new"] if settings.accept_new else [])]


def split_port(host: str) -> tuple[str, str]:
    """`host:2222` -> host and port; an IPv6 address has more colons and keeps them."""
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and port.isdecimal() and ":" not in name else (host, "")


def _multiplexing(binary: str, config: str, host: str, port: str, user: str) -> list[str]:
    """One connection for all commands. A ControlPath of the user's own is left alone: it may hold a login
    with a second factor, which no unattended connection can repeat."""
    if _has_control_path(binary, config, host, user):
        return []
    name = hashlib.sha256("\0".join((config, host, port, user)).encode()).hexdigest()[:16]
    return ["ControlMaster=auto", f"ControlPath={control_directory() / name}", f"ControlPersist={PERSIST_SECONDS}"]


@lru_cache(maxsize=64)
def _has_control_path(binary: str, config: str, host: str, user: str) -> bool:
    command = [binary, *(["-F", config] if config else []), "-G", "-l", user, "--", host]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return any(line.startswith("controlpath ") and line != "controlpath none" for line in shown.splitlines())


def control_directory() -> Path:
    """A short directory of the user's own for connection sockets; nobody else may write there."""
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        path = Path(parent or "/nonexistent") / f"tao-run-{os.getuid()}"
        if Path(parent or "/nonexistent").is_dir() and len(str(path)) <= _LONGEST_SOCKET - 17:
            path.mkdir(mode=0o700, exist_ok=True)
            return _owned(path)
    return Path(tempfile.mkdtemp(prefix="tao-run-", dir="/tmp"))


def _owned(path: Path) -> Path:
    found = path.lstat()
    if found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077:
        return path
    return Path(tempfile.mkdtemp(prefix="tao-run-", dir="/tmp"))


def ssh_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the ssh process, without secrets: SendEnv of a configuration might forward them."""
    return {name: value for name, value in environ.items() if not is_secret_name(name)}


class ConnectionFailed(BackendUnreachable):
    """This login host cannot be reached: another one may be tried."""


class NeverConnected(ConnectionFailed):
    """There was no connection at all: it is certain that the host got nothing of what was sent."""


def connection_error(host: str, text: str) -> TaoRunError:
    """What it means that ssh ended before our command began, from ssh's own words.

    Only a ConnectionFailed lets another login host be tried: a refused key or a host key that changed is for
    the user to look at.
    """
    words = redact(_last_line(text))
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in text or "Host key verification failed" in text:
        changed = "has changed" if "HAS CHANGED" in text else "is not known"
        return CredentialError(
            f"the host key of {host} {changed}",
            f"check it with the cluster's administrators, then run `{_by_hand(host)}` once "
            "(SLURM_SSH_ACCEPT_NEW=1 trusts new hosts, never changed ones)",
        )
    if "Permission denied" in text or "Too many authentication failures" in text:
        return CredentialRefused(
            f"{host} refuses the login: {words}",
            f"`{_by_hand(host)} -o BatchMode=yes true` must work without a password: "
            "add your key there or start ssh-agent",
        )
    if "Bad configuration option" in text or "terminating," in text:
        return CredentialError(f"the ssh configuration has an error: {words}", "correct it; `ssh -G HOST` shows it")
    kind = NeverConnected if _NO_CONNECTION.match(_last_line(text)) else ConnectionFailed
    return kind(f"{host} cannot be reached: {words or 'ssh gave no reason'}", f"try `{_by_hand(host)} true`")


def _by_hand(host: str) -> str:
    name, port = split_port(host)
    return f"ssh -p {port} {name}" if port else f"ssh {name}"


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _expand(path: str) -> str:
    return str(own_path(path)) if path else ""
