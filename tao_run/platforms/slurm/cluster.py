"""Which cluster a job lives on: user, login hosts and base directory, and where its files are there."""

from __future__ import annotations

import getpass
import re
import shlex
import shutil
from dataclasses import dataclass

from tao_run.credentials import Credentials
from tao_run.errors import UsageError
from tao_run.userpaths import own_path

DEFAULT_BASE = "~/tao-run"
_ACCOUNT = re.compile(r"(?P<user>[^@]+)@(?P<hosts>.*?):(?P<base>[/~].*)")
_DIRECT = "direct"
# What would end a mount, an #SBATCH line or a quoted word early.
_BAD_PATH = re.compile(r"[\s:,'\"\\$`]|(^|/)\.\.(/|$)")


@dataclass(frozen=True)
class Cluster:
    """One cluster as one user sees it. Without `hosts` its commands run on this machine, a login node."""

    user: str
    hosts: tuple[str, ...]
    base: str

    @property
    def direct(self) -> bool:
        """Whether this machine is a login node of the cluster."""
        return not self.hosts

    @property
    def account(self) -> str:
        """`user@host,host:base`, recorded with each job so that it is found again."""
        return f"{self.user}@{','.join(self.hosts) or _DIRECT}:{self.base}"

    @property
    def label(self) -> str:
        """The cluster in messages."""
        return ", ".join(self.hosts) or "this login node"

    def job_dir(self, job_name: str) -> str:
        """The directory with a job's script, environment file and logs."""
        return f"{self.base}/jobs/{job_name}"


def parse_account(account: str) -> Cluster:
    """The cluster of a recorded job. Raises UsageError if the record is not SLURM's."""
    match = _ACCOUNT.fullmatch(account)
    if not match:
        raise UsageError(f"{account!r} is not the account of a SLURM job")
    hosts = () if match["hosts"] == _DIRECT else tuple(match["hosts"].split(","))
    return Cluster(match["user"], hosts, match["base"])


def configured_cluster(credentials: Credentials) -> Cluster:
    """The cluster that the environment names.

    SLURM_HOSTNAME (or SSH_HOST) lists login hosts, names of the user's ssh configuration or `host:port`;
    SLURM_USER (or SSH_USER) is who logs in. Without a host, and with sbatch here, this is the login node.
    Raises CredentialMissing naming what is missing, UsageError for a base directory that cannot be used.
    """
    hosts = tuple(filter(None, re.split(r"[,\s]+", _either(credentials, "SLURM_HOSTNAME", "SSH_HOST"))))
    for host in hosts:
        if host.startswith("-"):
            raise UsageError(f"SLURM_HOSTNAME: {host!r} is not a host name")
    base = base_directory(credentials.setting("SLURM_BASE_RESULTS_DIR", DEFAULT_BASE))
    user = _either(credentials, "SLURM_USER", "SSH_USER")
    if not hosts and shutil.which("sbatch"):
        return Cluster(user or getpass.getuser(), (), str(own_path(base)))
    needed = {"SLURM_USER": user, "SLURM_HOSTNAME": ",".join(hosts)}
    credentials.require([name for name, value in needed.items() if not value], "SLURM")
    return Cluster(user, hosts, base)


def base_directory(text: str) -> str:
    """A base directory that is safe to write under. Raises UsageError."""
    path = text.rstrip("/")
    if not path.startswith(("/", "~/")) or _BAD_PATH.search(path):
        raise UsageError(
            f"SLURM_BASE_RESULTS_DIR={text!r} cannot be used",
            "name a directory on the cluster's shared file system, absolute or ~/..., without spaces, ':' or ','",
        )
    return path


def shell_path(path: str) -> str:
    """A path as a word of bash: `~/` is the home directory over there, everything else is literal."""
    if path == "~" or path.startswith("~/"):
        return '"$HOME"' + shlex.quote(path[1:]) if path[1:] else '"$HOME"'
    return shlex.quote(path)


def _either(credentials: Credentials, *names: str) -> str:
    return next((value for name in names if (value := credentials.setting(name))), "")
