"""A job as Kubernetes objects: the Job, and what belongs to it (Service, Secrets, ConfigMap). Pure."""

from __future__ import annotations

import base64
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tao_run.errors import UsageError
from tao_run.platforms.kubernetes import names
from tao_run.platforms.kubernetes.options import Mount, Options
from tao_run.platforms.references import NGC_REGISTRY

if TYPE_CHECKING:
    from tao_run.jobs.model import Job

Manifest = dict[str, Any]
MASTER_PORT = 29500
NGC_USER = "$oauthtoken"
#: a ConfigMap may hold 1 MiB
LARGEST_PAYLOAD = 1024 * 1024 - 1024


@dataclass(frozen=True)
class Parts:
    """What a job is made of, beside its request: the entry point's answer and what the credentials allow."""

    script: str
    env: Mapping[str, str]
    secrets: Mapping[str, str]
    payload: bytes | None = None
    ngc_pull: bool = False


def literal(text: str) -> str:
    """`text` as Kubernetes must be given it so that the container sees it unchanged.

    A kubelet replaces `$(NAME)` and turns `$$` into `$` in command, args and env values.
    """
    return text.replace("$", "$$")


def build(job: Job, options: Options, namespace: str, parts: Parts) -> list[Manifest]:
    """All objects of a job, the Job first: the others are owned by it and removed with it.

    When there are others, the Job starts suspended, so that no pod runs before they are there.
    Secret values are references: `${NAME}` stands for the credential NAME. Raises UsageError.
    """
    belongings = [
        *([_service(job)] if job.nodes > 1 else []),
        *([_secret(job, parts.secrets)] if parts.secrets else []),
        *([_pull_secret(job)] if parts.ngc_pull else []),
        *([_config_map(job, parts.payload)] if parts.payload is not None else []),
    ]
    manifests = [_job(job, options, parts, suspended=bool(belongings)), *belongings]
    for manifest in manifests:
        manifest["metadata"].update(namespace=namespace, labels=names.labels_of(job))
    if options.queue:
        manifests[0]["metadata"]["labels"][names.QUEUE] = options.queue
    return manifests


def owned(manifest: Manifest, owner: Mapping[str, Any]) -> Manifest:
    """The manifest with the created Job as its owner: it goes when the Job goes."""
    meta = owner["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [reference]}}


def with_values(manifest: Manifest, values: Mapping[str, str]) -> Manifest:
    """A Secret with the values in place of the references; anything else as it is."""
    if manifest["kind"] != "Secret":
        return manifest
    if manifest["type"] == "kubernetes.io/dockerconfigjson":
        data = {".dockerconfigjson": _docker_config(values["NGC_KEY"])}
    else:
        data = {key: values[text[2:-1]] for key, text in manifest["stringData"].items()}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {**{key: value for key, value in manifest.items() if key != "stringData"}, "data": encoded}


def completed(queued: bool) -> Manifest:
    """The merge patch that lets a suspended Job go; a queued one is let go by Kueue."""
    patch: Manifest = {"metadata": {"annotations": {names.LAUNCH: names.COMPLETE}}}
    return patch if queued else {**patch, "spec": {"suspend": False}}


def _job(job: Job, options: Options, parts: Parts, suspended: bool) -> Manifest:
    request = job.request
    spec: Manifest = {"backoffLimit": options.backoff_limit, "parallelism": job.nodes, "completions": job.nodes}
    if job.nodes > 1:
        spec["completionMode"] = "Indexed"
    if suspended or options.queue:
        spec["suspend"] = True
    if request.max_time is not None:
        spec["activeDeadlineSeconds"] = request.max_time
    if options.ttl is not None:
        spec["ttlSecondsAfterFinished"] = options.ttl
    spec["template"] = {
        "metadata": {"labels": names.labels_of(job), "annotations": dict(options.annotations)},
        "spec": _pod(job, options, parts),
    }
    annotations = {names.LAUNCH: names.INCOMPLETE if suspended else names.COMPLETE}
    if job.group:
        annotations[names.GROUP] = job.group
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job.name, "annotations": annotations},
        "spec": spec,
    }


def _pod(job: Job, options: Options, parts: Parts) -> Manifest:
    volumes, mounts = _volumes(job, options, parts)
    pull = [*options.image_pull_secret, *([names.pull_secret_name(job)] if parts.ngc_pull else [])]
    optional = {
        "subdomain": job.name if job.nodes > 1 else None,
        "nodeSelector": options.node_selector,
        "tolerations": options.tolerations,
        "priorityClassName": options.priority_class,
        "serviceAccountName": options.service_account,
        "imagePullSecrets": [{"name": name} for name in pull],
        "volumes": volumes,
        "hostNetwork": options.host_network,
        "dnsPolicy": "ClusterFirstWithHostNet" if options.host_network else None,
    }
    container = _container(job, options, parts, mounts)
    # as process 1 bash would take no signal and reap nobody: with a shared namespace the pause process is that
    always = {"restartPolicy": "Never", "shareProcessNamespace": True, "containers": [container]}
    return {**always, **{k: v for k, v in optional.items() if v}}


def _container(job: Job, options: Options, parts: Parts, mounts: list[Manifest]) -> Manifest:
    optional = {
        "imagePullPolicy": options.pull_policy,
        "envFrom": [{"secretRef": {"name": names.secret_name(job)}}] if parts.secrets else None,
        "resources": _resources(job, options),
        "volumeMounts": mounts,
    }
    return {
        "name": names.CONTAINER,
        "image": job.request.image,
        "command": ["/bin/bash", "-c", literal(parts.script)],
        "env": _environment(job, parts),
        **{k: v for k, v in optional.items() if v},
    }


def gpus_per_node(job: Job) -> int:
    """GPUs of each pod; a job that does not say gets one."""
    return job.request.gpus_or(1)


def _environment(job: Job, parts: Parts) -> list[Manifest]:
    """Rendezvous variables, then the job's own, which win over them; a secret of the same name is not hidden."""
    first = f"{job.name}-0.{job.name}" if job.nodes > 1 else "127.0.0.1"
    rank: Manifest = {"value": "0"}
    if job.nodes > 1:
        rank = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{names.INDEX}']"}}}
    found: dict[str, Manifest] = {
        "NNODES": {"value": str(job.nodes)},
        "NODE_RANK": rank,
        "WORLD_SIZE": {"value": str(job.nodes)},
        "MASTER_ADDR": {"value": first},
        "MASTER_PORT": {"value": str(MASTER_PORT)},
        "NUM_GPU_PER_NODE": {"value": str(gpus_per_node(job))},
    }
    if parts.payload is not None:
        found["TAO_RUN_PAYLOAD"] = {"value": f"{names.PAYLOAD_DIRECTORY}/{names.PAYLOAD_FILE}"}
    found.update({key: {"value": literal(value)} for key, value in parts.env.items()})
    return [{"name": key, **value} for key, value in found.items() if key not in parts.secrets]


def _resources(job: Job, options: Options) -> Manifest:
    limits = dict(options.limits)
    requests = {}
    if gpus_per_node(job):
        limits[options.gpu_resource] = str(gpus_per_node(job))
    if options.memory:
        limits["memory"] = requests["memory"] = options.memory
    if options.cpu:
        requests["cpu"] = options.cpu
    return {key: value for key, value in (("limits", limits), ("requests", requests)) if value}


def _volumes(job: Job, options: Options, parts: Parts) -> tuple[list[Manifest], list[Manifest]]:
    """Volumes and where they are mounted. One source with several targets is one volume mounted twice."""
    sources: dict[str, Manifest] = {}
    mounts: list[Manifest] = []
    if options.shm:
        size = {} if options.shm == "node" else {"sizeLimit": options.shm}
        sources["shm"] = {"emptyDir": {"medium": "Memory", **size}}
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    if parts.payload is not None:
        sources["payload"] = {"configMap": {"name": names.payload_name(job)}}
        mounts.append({"name": "payload", "mountPath": names.PAYLOAD_DIRECTORY, "readOnly": True})
    known: dict[tuple[str, str], str] = {}
    for kind, wanted in (("pvc", options.pvc), ("host", options.host_path)):
        for mount in wanted:
            name = known.setdefault((kind, mount.source), f"{kind}-{len(known)}")
            sources[name] = _source(kind, mount.source)
            mounts.append(_volume_mount(name, mount))
    _check_targets(mounts)
    return [{"name": name, **source} for name, source in sources.items()], mounts


def _source(kind: str, source: str) -> Manifest:
    if kind == "pvc":
        return {"persistentVolumeClaim": {"claimName": source}}
    return {"hostPath": {"path": posixpath.normpath(source)}}


def _volume_mount(name: str, mount: Mount) -> Manifest:
    optional = {"subPath": mount.sub_path, "readOnly": mount.read_only}
    return {"name": name, "mountPath": mount.path, **{k: v for k, v in optional.items() if v}}


def _check_targets(mounts: Sequence[Mapping[str, Any]]) -> None:
    paths = [mount["mountPath"] for mount in mounts]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise UsageError(f"two mounts want to be at {twice[0]}", "give each its own path")


def _service(job: Job) -> Manifest:
    """The headless Service that gives each pod of an Indexed Job its name, before it is ready too."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {names.JOB_ID: job.id}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": job.name}, "spec": spec}


def _secret(job: Job, secrets: Mapping[str, str]) -> Manifest:
    references = {variable: f"${{{source}}}" for variable, source in secrets.items()}
    meta = {"name": names.secret_name(job)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "stringData": references}


def _pull_secret(job: Job) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": names.pull_secret_name(job)},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": _docker_config("${NGC_KEY}", encode=False)},
    }


def _docker_config(key: str, encode: bool = True) -> str:
    entry = {"username": NGC_USER, "password": key}
    if encode:
        entry["auth"] = base64.b64encode(f"{NGC_USER}:{key}".encode()).decode()
    return json.dumps({"auths": {NGC_REGISTRY: entry}})


def _config_map(job: Job, payload: bytes) -> Manifest:
    if len(payload) > LARGEST_PAYLOAD:
        raise UsageError(
            f"the job's spec and runner take {len(payload)} bytes; a ConfigMap holds {LARGEST_PAYLOAD}",
            "put large data in a file on a mount or in object storage",
        )
    data = {names.PAYLOAD_FILE: base64.b64encode(payload).decode()}
    meta = {"name": names.payload_name(job)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "binaryData": data}
