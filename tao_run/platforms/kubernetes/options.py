"""The options of the Kubernetes platform, and the short forms in which people write them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from tao_run.jobs.commas import listed
from tao_run.jobs.request import Seconds, Strict, parse_model

THREE_DAYS = 3 * 86400
_QUANTITY = re.compile(r"\d+(\.\d+)?([EPTGM]i?|Ki|k|m)?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DOCKER_SIZE = re.compile(r"(\d+)([kmg])b?")
_POLICIES = {"missing": "IfNotPresent", "ifnotpresent": "IfNotPresent", "always": "Always", "never": "Never"}
_NO_SHM = ("0", "off", "none", "false")


class Mount(Strict):
    """One directory in the container: a claim's (`pvc`) or the node's own (`host_path`)."""

    source: str
    path: str
    sub_path: str = ""
    read_only: bool = False


def _pairs(value: Any) -> Any:
    """`a=b,c=d`, or a list of such, as a mapping."""
    value = listed(value)
    if not isinstance(value, (list, tuple)):
        return value
    pairs = [str(item).partition("=") for item in value]
    if any(not sign for _, sign, _ in pairs):
        raise ValueError("write KEY=VALUE, several with commas")
    return {key.strip(): text.strip() for key, _, text in pairs}


def _list(value: Any) -> Any:
    return [value] if isinstance(value, Mapping) else listed(value)


def _toleration(value: Any) -> Any:
    """`key`, `key:Effect`, `key=value:Effect`, or `*` for any taint, as Kubernetes writes it."""
    if not isinstance(value, str):
        return value
    if value == "*":
        return {"operator": "Exists"}
    head, _, effect = value.partition(":")
    if effect and effect not in _EFFECTS:
        raise ValueError(f"toleration {value!r}: the effect is one of {', '.join(_EFFECTS)}")
    key, sign, text = head.partition("=")
    found = {"key": key, "operator": "Equal" if sign else "Exists"}
    return {**found, **({"value": text} if sign else {}), **({"effect": effect} if effect else {})}


def _tolerations(value: Any) -> Any:
    items = _list(value)
    return [_toleration(item) for item in items] if isinstance(items, list) else items


def _mount(value: Any) -> Any:
    """`SOURCE:/PATH[:ro]`; the source of a claim may go on with a directory in it: `CLAIM/DIR`."""
    if not isinstance(value, str):
        return value
    source, _, rest = value.partition(":")
    path, _, mode = rest.partition(":")
    if not source or not path.startswith("/") or mode not in ("", "ro", "rw"):
        raise ValueError(f"{value!r}: write SOURCE:/PATH or SOURCE:/PATH:ro")
    return {"source": source, "path": posixpath.normpath(path), "read_only": mode == "ro"}


def _mounts(value: Any) -> Any:
    items = _list(value)
    return [_mount(item) for item in items] if isinstance(items, list) else items


def _quantity(value: Any) -> Any:
    text = str(value)
    if not _QUANTITY.fullmatch(text):
        raise ValueError(f"{text!r} is not a quantity: write 4, 500m, 16Gi")
    return text


def _quantities(value: Any) -> Any:
    pairs = _pairs(value)
    return {key: _quantity(text) for key, text in pairs.items()} if isinstance(pairs, Mapping) else pairs


def _shm(value: Any) -> Any:
    if value is None or value is False or str(value).lower() in _NO_SHM:
        return False
    docker = _DOCKER_SIZE.fullmatch(str(value).lower())
    return f"{docker[1]}{docker[2].upper()}i" if docker else value if value == "node" else _quantity(value)


def _policy(value: Any) -> Any:
    return _POLICIES.get(str(value).lower(), value)


def _unless_off(value: Any) -> Any:
    return None if value is False or str(value).lower() in ("off", "none", "false") else value


Pairs = Annotated[dict[str, str], BeforeValidator(_pairs)]
Quantity = Annotated[str, BeforeValidator(_quantity)]
Quantities = Annotated[dict[str, str], BeforeValidator(_quantities)]
Mounts = Annotated[list[Mount], BeforeValidator(_mounts)]
Names = Annotated[list[str], BeforeValidator(_list)]


class Options(Strict):
    """What only Kubernetes knows. Lists take commas: `-o pvc=data:/data,models:/models:ro`."""

    context: str | None = Field(None, description="kubeconfig context; else TAO_K8S_CONTEXT, else the current one")
    namespace: str | None = Field(None, description="else TAO_K8S_NAMESPACE, else the context's own, else default")
    node_selector: Pairs = Field(default_factory=dict, description="labels the node must have: KEY=VALUE,...")
    tolerations: Annotated[list[dict[str, Any]], BeforeValidator(_tolerations)] = Field(
        default_factory=list, description="taints that are no obstacle: KEY, KEY:EFFECT, KEY=VALUE:EFFECT, *"
    )
    queue: str | None = Field(None, description="Kueue local queue that admits the job")
    priority_class: str | None = Field(None, description="priority class of the pods")
    service_account: str | None = Field(None, description="service account of the pods")
    pvc: Mounts = Field(default_factory=list, description="claims: CLAIM:/PATH[:ro], CLAIM/DIR:/PATH")
    host_path: Mounts = Field(default_factory=list, description="directories of the node: /DIR:/PATH[:ro]")
    shm: Annotated[str | Literal[False] | Literal["node"], BeforeValidator(_shm)] = Field(
        "node", description="size of /dev/shm; without it as large as the memory allows; off: 64 MiB"
    )
    cpu: Quantity | None = Field(None, description="CPUs requested per pod")
    memory: Quantity | None = Field(None, description="memory per pod, requested and its limit: 64Gi")
    limits: Quantities = Field(default_factory=dict, description="other resources per pod: rdma/ib=1,...")
    gpu_resource: str = Field("nvidia.com/gpu", description="resource name of a GPU")
    image_pull_secret: Names = Field(default_factory=list, description="existing pull secrets of the namespace")
    pull_policy: Annotated[Literal["Always", "IfNotPresent", "Never"] | None, BeforeValidator(_policy)] = Field(
        None, description="missing, always or never"
    )
    host_network: bool = Field(False, description="the node's own network, as some InfiniBand setups need")
    backoff_limit: int = Field(0, ge=0, le=100, description="replace a failed pod this often")
    ttl: Annotated[Seconds | None, BeforeValidator(_unless_off)] = Field(
        THREE_DAYS, description="the cluster removes the ended job after this time; off: never"
    )
    annotations: Pairs = Field(default_factory=dict, description="annotations of the pods: KEY=VALUE,...")

    @field_validator("namespace", "queue", "priority_class", "service_account")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not a name: lower-case letters, digits, - and . in between")
        return value

    @field_validator("host_path")
    @classmethod
    def _host_paths_are_absolute(cls, value: list[Mount]) -> list[Mount]:
        for mount in value:
            if not mount.source.startswith("/"):
                raise ValueError(f"{mount.source!r}: a directory of the node begins with /")
        return value

    @field_validator("pvc")
    @classmethod
    def _claims_and_their_directories(cls, value: list[Mount]) -> list[Mount]:
        return [_split_claim(mount) for mount in value]

    @classmethod
    def parse(cls, block: Mapping[str, Any]) -> Options:
        """The options of a request. Raises UsageError."""
        return parse_model(cls, block, "kubernetes options")


def with_shared_mount(options: Options, mount: str | Literal[False] | None) -> Options:
    """The options with the request's shared mount: `CLAIM:/PATH`, `/DIR:/PATH`, or `/DIR` at its own path.

    Raises UsageError.
    """
    if not mount:
        return options
    text = mount if ":" in mount else f"{mount}:{mount}"
    kind = "host_path" if text.startswith("/") else "pvc"
    more = Options.parse({kind: text})
    return options.model_copy(update={kind: [*getattr(more, kind), *getattr(options, kind)]})


def shared_path(mount: str | Literal[False] | None) -> str | None:
    """Where the request's shared mount is in the container."""
    options = with_shared_mount(Options.parse({}), mount)
    return next((found.path for found in (*options.pvc, *options.host_path)), None)


def _split_claim(mount: Mount) -> Mount:
    claim, _, directory = mount.source.partition("/")
    inside = posixpath.normpath(mount.sub_path or directory) if mount.sub_path or directory else ""
    if not _NAME.fullmatch(claim):
        raise ValueError(f"{claim!r} is not the name of a claim")
    if inside.startswith(("/", "..")):
        raise ValueError(f"{inside!r} leaves the claim")
    return mount.model_copy(update={"source": claim, "sub_path": inside})
