"""Which cluster and namespace a job lives in: read from kubeconfig without its client, or from inside a pod."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tao_run.credentials import Credentials
from tao_run.errors import CredentialMissing, UsageError
from tao_run.userpaths import own_path

IN_CLUSTER = "in-cluster"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Account:
    """One namespace of one cluster, as recorded with a job: `<context>/<namespace> <server>`."""

    context: str
    namespace: str
    server: str

    def __str__(self) -> str:
        return f"{self.context}/{self.namespace} {self.server}"

    @classmethod
    def parse(cls, text: str) -> Account:
        """The account that `str` wrote. A context may hold any character, the other two hold no space or slash."""
        head, _, server = text.rpartition(" ")
        context, _, namespace = head.rpartition("/")
        return cls(context, namespace, server)


@dataclass(frozen=True)
class Kubeconfig:
    """What the kubeconfig files say of contexts and clusters; the first file to name one wins."""

    files: tuple[Path, ...]
    current: str = ""
    contexts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    servers: Mapping[str, str] = field(default_factory=dict)


def kubeconfig_files(credentials: Credentials) -> tuple[Path, ...]:
    """The files of KUBECONFIG (separated as in PATH), else ~/.kube/config; those that exist."""
    named = credentials.setting("KUBECONFIG")
    paths = [own_path(part) for part in named.split(os.pathsep) if part] if named else []
    files = tuple(path for path in paths or [Path.home() / ".kube" / "config"] if path.is_file())
    if named and not files:
        raise CredentialMissing(f"KUBECONFIG names {named}, which does not exist", names=("KUBECONFIG",))
    return files


def read_kubeconfig(files: tuple[Path, ...]) -> Kubeconfig:
    """Contexts and servers of the files. Raises UsageError for one that cannot be read."""
    current = ""
    contexts: dict[str, Mapping[str, Any]] = {}
    servers: dict[str, str] = {}
    for path in files:
        data = _yaml(path)
        current = current or str(data.get("current-context") or "")
        for entry in data.get("contexts") or []:
            contexts.setdefault(str(entry.get("name")), entry.get("context") or {})
        for entry in data.get("clusters") or []:
            servers.setdefault(str(entry.get("name")), str((entry.get("cluster") or {}).get("server") or ""))
    return Kubeconfig(files, current, contexts, servers)


def _yaml(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read the kubeconfig {path}: {str(error).splitlines()[0]}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path} is no kubeconfig")
    return data


def choose(
    credentials: Credentials,
    context: str | None = None,
    namespace: str | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Account:
    """The account for a request's options. Raises UsageError (no such context), CredentialMissing (none at all)."""
    wanted = context or credentials.setting("TAO_K8S_CONTEXT")
    wanted_namespace = namespace or credentials.setting("TAO_K8S_NAMESPACE")
    config = read_kubeconfig(kubeconfig_files(credentials))
    if not config.contexts and wanted in ("", IN_CLUSTER) and credentials.has("KUBERNETES_SERVICE_HOST"):
        return _in_cluster(credentials, wanted_namespace, service_account)
    if not config.contexts:
        raise CredentialMissing(
            "no kubeconfig: there is no KUBECONFIG, no ~/.kube/config, and this is no pod of a cluster",
            "set KUBECONFIG to the file that your cluster's administrator gave you",
            ("KUBECONFIG",),
        )
    name = wanted or config.current
    if name not in config.contexts:
        raise UsageError(
            f"no context {name!r} in the kubeconfig; there are: {', '.join(config.contexts)}"
            if name
            else f"the kubeconfig has no current context; there are: {', '.join(config.contexts)}",
            "choose one with -o context=NAME or TAO_K8S_CONTEXT",
        )
    entry = config.contexts[name]
    server = config.servers.get(str(entry.get("cluster")), "")
    return Account(name, wanted_namespace or str(entry.get("namespace") or "default"), server)


def _in_cluster(credentials: Credentials, namespace: str, service_account: Path) -> Account:
    own = service_account / "namespace"
    if not namespace and own.is_file():
        namespace = own.read_text(encoding="utf-8").strip()
    host, port = credentials.setting("KUBERNETES_SERVICE_HOST"), credentials.setting("KUBERNETES_SERVICE_PORT", "443")
    return Account(IN_CLUSTER, namespace or "default", f"https://{f'[{host}]' if ':' in host else host}:{port}")
