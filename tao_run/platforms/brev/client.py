"""Runs the `brev` command line tool and says in our words what went wrong.

Written against brev v0.6.99 (github.com/brevdev/brev-cli, pkg/cmd/exec, copy, ls, login). What its
behaviour asks of a caller: stdin is /dev/null (from anything else it reads instance names); the remote
command is one word; a failing remote command is run a second time and its exit code is lost, so that ours
never fail and print their exit code between two marks; after the output comes the instance's name. `exec`
has no stdin, and `exec @file` puts the file's text on the command line of ssh: only `copy` (scp) carries secrets.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tao_run.credentials import Credentials, is_secret_name
from tao_run.errors import (
    BackendFault,
    BackendRejected,
    BackendUnreachable,
    CredentialRefused,
    NotInstalled,
    PermissionRefused,
    RateLimited,
    TaoRunError,
)
from tao_run.redact import redact

INSTALL = "brew install brevdev/homebrew-brev/brev (or see https://docs.nvidia.com/brev), then `brev login`"
SHORT, LONG = 60.0, 600.0  # seconds: a call of the API; a command or a copy, which may wait for ssh
_LOGGED_OUT = re.compile(r"currently logged out|unauthori[sz]ed|\b401\b|malformed refresh token|promptforlogin", re.I)
_FAULTS: tuple[tuple[re.Pattern[str], type[TaoRunError]], ...] = (
    (re.compile(r"\b403\b|forbidden|permission denied", re.I), PermissionRefused),
    (re.compile(r"\b429\b|too many requests", re.I), RateLimited),
    (re.compile(r"\b50[0234]\b|bad gateway|service unavailable", re.I), BackendFault),
    (
        re.compile(
            r"no such host|dial tcp|connection (refused|reset|closed|timed out)|i/o timeout|timed out|unreachable"
            r"|tls handshake|internet connection|\beof\b|could not connect|ssh connection failed|exit status 255",
            re.I,
        ),
        BackendUnreachable,
    ),
)


@dataclass(frozen=True)
class Output:
    """What a remote script printed (stdout and stderr together) and its exit code."""

    text: str
    code: int


class BrevCli:
    """The brev executable of this machine.

    `environ` is the environment to run it in; secrets are taken out of it. BREV_API_TOKEN is used only when
    the CLI says that it is logged out: it is written where `brev login --token` keeps it, so that it never
    is on a command line.
    """

    def __init__(self, credentials: Callable[[], Credentials], environ: Mapping[str, str] | None = None) -> None:
        self._credentials = credentials
        self._environ = os.environ if environ is None else environ

    @property
    def home(self) -> Path:
        """Where the CLI keeps its login (`.brev/credentials.json`) and its active organization."""
        return Path(self._environ.get("HOME") or Path.home())

    def executable(self) -> str:
        """The path of the CLI. Raises NotInstalled."""
        found = shutil.which("brev", path=self._environ.get("PATH"))
        if found is None:
            raise NotInstalled("the brev command line tool is not installed", INSTALL)
        return found

    def call(self, *argv: str, timeout: float = SHORT) -> str:
        """Run `brev ARGV` and return its stdout; an expired login is renewed once with BREV_API_TOKEN.

        Raises BackendUnreachable, CredentialRefused, PermissionRefused, NotInstalled, and BackendRejected when
        the CLI refuses for another reason.
        """
        done = self._run(argv, timeout)
        if done.returncode != 0 and _LOGGED_OUT.search(_said(done)) and self._log_in():
            done = self._run(argv, timeout)
        if done.returncode != 0:
            raise failure(argv[0], _said(done))
        return done.stdout

    def exec(self, instance: str, script: str, timeout: float = LONG, renew: bool = True) -> Output:
        """Run a bash script on a running instance. Raises BackendUnreachable if its end was not seen.

        The script may run twice (see above): it must allow that. Do not call this for an instance that is not
        RUNNING: the CLI would start a stopped one.
        """
        mark = secrets.token_hex(8)
        done = self._run(("exec", instance, framed(script, mark)), timeout)
        found = unframe(done.stdout, mark)
        if found is not None:
            return found
        said = _said(done).replace(mark, "")
        if renew and _LOGGED_OUT.search(said) and self._log_in():
            return self.exec(instance, script, timeout, renew=False)
        raise _unanswered(instance, said)

    def stream(self, instance: str, script: str) -> subprocess.Popen[bytes]:
        """Start a script on an instance and hand out the running CLI: its stdout is the script's, as it comes."""
        return subprocess.Popen(
            [self.executable(), "exec", instance, remote_command(script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._clean_environ(),
            start_new_session=True,  # Ctrl-C is ours to handle
        )

    def copy(self, source: Path, instance: str, target: str) -> None:
        """scp a file or directory to a running instance; a relative target starts at its home directory."""
        self.call("copy", str(source), f"{instance}:{target}", timeout=LONG)

    def version(self) -> str:
        """The version of the CLI, `0.6.99`, or what it prints if that is not one."""
        text = self.call("--version")
        found = re.search(r"\d+\.\d+\.\d+", text)
        return found.group() if found else " ".join(text.split())[:60]

    def active_org(self) -> str:
        """The organization that `brev set` chose, as the CLI remembers it; empty if it does not. No network."""
        try:
            saved = json.loads((self.home / ".brev" / "active_org.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ""
        return str(saved.get("name") or "") if isinstance(saved, dict) else ""

    # -- how it is run --------------------------------------------------------------------------------------

    def _run(self, argv: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
        command = [self.executable(), *argv]
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                env=self._clean_environ(),
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BackendUnreachable(f"`brev {argv[0]}` did not answer within {timeout:g} s") from None

    def _clean_environ(self) -> dict[str, str]:
        env = {key: value for key, value in self._environ.items() if not is_secret_name(key)}
        api_key = self._environ.get("BREV_API_KEY")  # newer versions of the CLI log in with it
        return {**env, "BREV_API_KEY": api_key} if api_key else env

    def _log_in(self) -> bool:
        """Renew the login from BREV_API_TOKEN, as `brev login --token` would. False if there is no token."""
        if not self._credentials().has("BREV_API_TOKEN"):
            return False
        token = self._credentials().value("BREV_API_TOKEN")
        is_jwt = token.count(".") == 2
        saved = {"access_token": token, "refresh_token": ""}
        if not is_jwt:
            saved = {"access_token": "auto-login", "refresh_token": token}
        directory = self.home / ".brev"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = directory / f"credentials.{os.getpid()}.tmp"
        fresh.touch(0o600)
        fresh.write_text(json.dumps(saved), encoding="utf-8")
        fresh.replace(directory / "credentials.json")
        return True


def framed(script: str, mark: str) -> str:
    """The remote command that runs a script, all output between two marks, and itself always succeeds."""
    body = f"( {script}\n) 2>&1 </dev/null"
    return remote_command(f"printf '%s\\n' '<{mark}'\n{body}\nprintf '\\n%s %s\\n' '{mark}>' \"$?\"\nexit 0")


def remote_command(script: str) -> str:
    """A script as the one word that `brev exec` takes; the login shell there may be any."""
    return f"bash -c {shlex.quote(script)}"


def unframe(stdout: str, mark: str) -> Output | None:
    """The last complete run between marks, or None if no run was seen to its end."""
    before, end, after = stdout.rpartition(f"\n{mark}> ")
    if not end:
        return None
    return Output(before.rpartition(f"<{mark}\n")[2], int(after.split("\n")[0]))


def failure(command: str, said: str) -> TaoRunError:
    """The error for what the CLI said before it exited with 1."""
    text = _clip(said)
    if _LOGGED_OUT.search(said):
        hint = "run `brev login`, or set BREV_API_TOKEN in ~/.config/tao/.env"
        return CredentialRefused("brev is not logged in, or its login has expired", hint)
    for pattern, kind in _FAULTS:
        if pattern.search(said):
            return kind(f"`brev {command}` failed: {text}")
    return BackendRejected(f"`brev {command}` failed: {text}")


def _unanswered(instance: str, said: str) -> TaoRunError:
    if _LOGGED_OUT.search(said):
        return failure("exec", said)
    return BackendUnreachable(
        f"instance {instance} does not answer: {_clip(said) or 'no output'}",
        "look at `brev ls`, then `brev refresh` and again",
    )


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return f"{done.stderr}\n{done.stdout}"


def _clip(said: str) -> str:
    """The lines that say something, on one line: no stack traces, no secrets."""
    lines = [line.strip() for line in said.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("/", "pkg/", "github.com/"))]
    return redact(" ".join(kept).removeprefix("[error] "))[:400]
