"""Runs bash text on a cluster: over ssh with fail-over between login hosts, or directly on a login node."""

from __future__ import annotations

import os
import secrets
import selectors
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from tao_run.credentials import is_secret_name
from tao_run.errors import BackendUnreachable, ProtocolError, TaoRunError
from tao_run.platforms.slurm.cluster import Cluster
from tao_run.platforms.slurm.ssh import (
    ConnectionFailed,
    NeverConnected,
    SshSettings,
    connection_error,
    ssh_command,
    ssh_environment,
)
from tao_run.redact import redact

COMMAND_SECONDS = 120.0
_CHUNK = 65536
# Variables that a login node's own commands need; anything else of ours stays out of the job's environment.
_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TMPDIR", "SLURM_CONF", "KRB5CCNAME")

# `section NAME COMMAND...` frames a command's output, error output and exit code between lines that carry a
# mark nobody can guess: welcome messages, module noise and log text around or inside them do no harm.
# One brace group, so that bash has read all of it before the first command can read standard input.
_FRAME = """\
{{ M={mark}
section() {{
  local _name=$1 _err _code; shift
  printf '\\n%s out %s\\n' "$M" "$_name"
  {{ _err=$("$@" 2>&1 >&3 </dev/null); _code=$?; }} 3>&1
  printf '\\n%s err %s %d\\n%s\\n%s end\\n' "$M" "$_name" "$_code" "$_err" "$M"
}}
command -v squeue >/dev/null 2>&1 || . /etc/profile >/dev/null 2>&1 </dev/null
printf '\\n%s begin\\n' "$M"
(
{script}
)
printf '\\n%s done\\n' "$M"
exit; }}
"""


@dataclass(frozen=True)
class Section:
    """What one command said."""

    code: int
    out: str
    err: str


class Answer(dict[str, Section]):
    """The sections that a script printed, by name."""


class NeverBegan(ProtocolError):
    """The account's shell ended by itself without running our script: nothing was done."""


class Remote:
    """One cluster's login hosts. Remembers which one answered last and asks it first."""

    def __init__(self, cluster: Cluster, settings: SshSettings, environ: Mapping[str, str] | None = None) -> None:
        self.cluster = cluster
        self._settings = settings
        self._environ = dict(os.environ if environ is None else environ)
        self._hosts = list(cluster.hosts)

    def run(self, script: str, data: bytes = b"", timeout: float = COMMAND_SECONDS, repeat: bool = True) -> Answer:
        """Run bash text and return its sections; `data` is its standard input.

        A host that cannot be connected to is passed over for the next. If the connection breaks after the
        script began, it is run again elsewhere only if it may be repeated. Raises BackendUnreachable,
        CredentialRefused (the key is refused), CredentialError (host key), NotInstalled (no ssh client).
        """
        failures: list[TaoRunError] = []
        for host in list(self._hosts) or [""]:
            try:
                answer = self._run_on(host, script, data, timeout)
            except ConnectionFailed as error:
                failures.append(error)
                continue
            except BackendUnreachable as error:
                if not repeat:
                    raise
                failures.append(error)
                continue
            self._prefer(host)
            return answer
        raise self._nobody(failures)

    def run_on(self, host: str, script: str, timeout: float = COMMAND_SECONDS) -> Answer:
        """Run on this login host only (preflight looks at each)."""
        return self._run_on(host, script, b"", timeout)

    def stream(self, script: str, idle: float) -> Iterator[bytes]:
        """The raw output of bash text, chunk by chunk, from the first host that can be connected to.

        Raises BackendUnreachable when the connection breaks or brings nothing for `idle` seconds; the host
        then goes to the end of the line, so that the next call begins with another one.
        """
        host = self._hosts[0] if self._hosts else ""
        with self._process(host) as (process, errors):
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(script.encode())
                process.stdin.close()
                yield from _chunks(process.stdout, idle, host)
                code = process.wait(timeout=idle)
            except (BackendUnreachable, OSError, subprocess.TimeoutExpired):
                self._postpone(host)
                raise _broken(host, _text(errors)) from None
            if code == 255 and host:
                self._postpone(host)
                raise connection_error(host, _text(errors))

    def _run_on(self, host: str, script: str, data: bytes, timeout: float) -> Answer:
        mark = f"tao-run-{secrets.token_hex(8)}"
        sent = _FRAME.format(mark=mark, script=script).encode() + data
        with self._process(host) as (process, errors):
            try:
                out, _ = process.communicate(sent, timeout=timeout)
            except subprocess.TimeoutExpired:
                raise BackendUnreachable(
                    f"{host or 'the login node'} did not answer within {timeout:.0f} seconds",
                    "the login node or the file system may be overloaded; try again",
                ) from None
            printed, said = out.decode("utf-8", "replace"), _text(errors)
        if f"\n{mark} begin\n" not in printed:
            raise _never_began(host, process.returncode, said, printed)
        if f"\n{mark} done\n" not in printed:
            raise _broken(host, said)
        return _sections(printed, mark)

    @contextmanager
    def _process(self, host: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
        """A shell on `host`. Its error output goes to a file: the shared connection, which outlives the
        command, may keep a pipe open."""
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                self._argv(host),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C is for us: it must not take the shared connection along
            )
            try:
                yield process, errors
            finally:
                _end(process)

    def _argv(self, host: str) -> list[str]:
        if not host:
            return ["bash", "--noprofile", "--norc", "-s"]
        return ssh_command(host, self.cluster.user, self._settings)

    def _environment(self) -> dict[str, str]:
        if self.cluster.hosts:
            return ssh_environment(self._environ)
        return {
            name: value
            for name, value in self._environ.items()
            if name in _KEPT or (name.startswith(("LC_", "MODULE")) and not is_secret_name(name))
        }

    def _prefer(self, host: str) -> None:
        if host in self._hosts:
            self._hosts.remove(host)
            self._hosts.insert(0, host)

    def _postpone(self, host: str) -> None:
        if host in self._hosts:
            self._hosts.remove(host)
            self._hosts.append(host)

    def _nobody(self, failures: list[TaoRunError]) -> TaoRunError:
        if len(failures) == 1:
            return failures[0]
        text = "; ".join(failure.message for failure in failures)
        kind = (
            NeverConnected if all(isinstance(failure, NeverConnected) for failure in failures) else BackendUnreachable
        )
        return kind(f"no login host can be reached: {text}", failures[0].hint)


def _sections(printed: str, mark: str) -> Answer:
    answer = Answer()
    for part in printed.split(f"\n{mark} out ")[1:]:
        name, _, rest = part.partition("\n")
        out, _, rest = rest.partition(f"\n{mark} err {name} ")
        code, _, rest = rest.partition("\n")
        answer[name] = Section(int(code), out, rest.partition(f"\n{mark} end")[0])
    return answer


def _never_began(host: str, code: int, said: str, printed: str) -> TaoRunError:
    if code == 255 and host:
        return connection_error(host, said)
    words = redact(" ".join((said or printed).split())[-300:])
    ended_by_itself = code >= 0  # else a signal ended our own ssh, and the script may run
    return (NeverBegan if ended_by_itself else ProtocolError)(
        f"{host or 'this machine'} did not run our command (exit {code}): {words or 'it said nothing'}",
        f"try `ssh {host} bash -c true`; the account there needs a shell" if host else "bash must be installed",
    )


def _broken(host: str, said: str) -> BackendUnreachable:
    words = redact(" ".join(said.split())[-300:])
    return BackendUnreachable(f"the connection to {host or 'the shell'} broke off{': ' + words if words else ''}")


def _chunks(stream: IO[bytes], idle: float, host: str) -> Iterator[bytes]:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if not selector.select(idle):
                raise _broken(host, f"silent for {idle:.0f} seconds")
            chunk = os.read(stream.fileno(), _CHUNK)
            if not chunk:
                return
            yield chunk


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                pass  # it ended before it had read all of its input
    process.wait()


def _text(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read().decode("utf-8", "replace")
