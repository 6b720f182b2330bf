"""Who this process is and where its results go: job, rank, directories, from the plan and the environment."""

from __future__ import annotations

import json
import os
import posixpath
import re
import tempfile
import uuid
from dataclasses import dataclass
from typing import Dict, Mapping, Set

from . import log
from .errors import OutputError
from .objects.base import settings_from
from .plan import Plan
from .template import texts_in
from .uris import bucket_path, join, scheme_of

_S3_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])")
_EPHEMERAL = "/results"
_OURS = ("TAO_RUN_PAYLOAD", "TAO_RUN_PLAN")
SECRET_VARIABLES = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|ACCESS_KEY_ID|METADATA)$")


@dataclass(frozen=True)
class Context:
    """`work` is the local directory of the job's results; `uri` the s3:// prefix they are uploaded to, if any.

    `persistent` says that `work` outlives the job by itself.
    """

    job_id: str
    rank: int
    nodes: int
    work: str
    uri: str
    persistent: bool

    @property
    def marker(self) -> str:
        """What rank 0 leaves in its work directory: another rank that sees it shares that directory."""
        return os.path.join(self.work, ".tao-run", "rank-0")

    @property
    def shares_work(self) -> bool:
        """Whether this rank works in the directory of rank 0, which then delivers for both."""
        return self.rank > 0 and os.path.exists(self.marker)

    @property
    def record_name(self) -> str:
        """The name of this rank's record."""
        return "tao-run.json" if self.rank == 0 else f"tao-run.rank-{self.rank}.json"


def make_context(plan: Plan, env: Mapping[str, str]) -> Context:
    """Decide where results go, and make the directory. Raises OutputError if it cannot be made."""
    job_id = plan.job_id or env.get("TAO_JOB_ID") or uuid.uuid4().hex[:16]
    uri = _results_uri(plan, env, job_id)
    work, persistent = _work_directory(plan, env, job_id, uri)
    context = Context(job_id, _number(env, "NODE_RANK", 0), _number(env, "NNODES", 1), work, uri, persistent)
    if context.rank == 0:
        _mark(context.marker)
    if not persistent and not uri:
        log.warn(
            f"THE RESULTS WILL BE LOST when this job ends: {work} is inside the container. "
            "Set S3_BUCKET_NAME, or --results to a bucket or a mounted directory"
        )
    return context


def _results_uri(plan: Plan, env: Mapping[str, str], job_id: str) -> str:
    root = env.get("TAO_RESULTS_ROOT", "")
    if plan.results_uri:
        return plan.results_uri.rstrip("/")
    if scheme_of(root) == "s3":
        return f"{root.rstrip('/')}/{job_id}"
    bucket = env.get("S3_BUCKET_NAME", "")
    return f"s3://{bucket}/results/{job_id}" if bucket and not plan.results_local_only else ""


def _work_directory(plan: Plan, env: Mapping[str, str], job_id: str, uri: str) -> "tuple[str, bool]":
    root = env.get("TAO_RESULTS_ROOT", "")
    if root and not scheme_of(root):
        return _make(os.path.join(root, job_id)), True
    if plan.mount:
        # where a later job's input of the same URI is looked for
        inside = posixpath.join(*bucket_path(uri)) if uri else join("results", job_id)
        return _make(os.path.join(plan.mount, inside)), True
    if os.getpid() == 1 or os.access(_EPHEMERAL, os.W_OK):
        return _make(os.path.join(_EPHEMERAL, job_id)), False
    # without a container the temporary directory is everybody's: users of one node must not meet in it
    return _make(os.path.join(tempfile.gettempdir(), f"tao-results-{os.getuid()}", job_id)), False


def _make(path: str) -> str:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot make {path} for the results: {error.strerror}", "check the mount and its rights"
        ) from None
    return path


def _mark(path: str) -> None:
    _make(os.path.dirname(path))
    try:
        with open(path, "w", encoding="utf-8"):
            pass
    except OSError as error:
        raise OutputError(f"cannot write to {path}: {error.strerror}", "check space and rights of the mount") from None


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "")
    return int(text) if text.isdecimal() else default


def child_environment(env: Mapping[str, str], context: Context, buckets: Set[str]) -> Dict[str, str]:
    """The command's environment: what the container has, the job's own variables, and CLOUD_METADATA.

    The latter holds secrets, so it is put together here and nowhere else: no job definition carries it.
    """
    child = {name: value for name, value in env.items() if name not in _OURS}
    child["TAO_JOB_ID"] = context.job_id
    child["TAO_RESULTS_DIR"] = context.work
    store = settings_from(env)
    if store.access_key and store.secret_key and buckets:
        entry = {
            "cloud_region": store.region,
            "access_key": store.access_key,
            "secret_key": store.secret_key,
            "endpoint_url": store.endpoint,
        }
        child.setdefault("AWS_ACCESS_KEY_ID", store.access_key)
        child.setdefault("AWS_SECRET_ACCESS_KEY", store.secret_key)
        child.setdefault("CLOUD_METADATA", json.dumps({"aws": dict.fromkeys(sorted(buckets), entry)}))
    return child


def declared_buckets(plan: Plan, context: Context, env: Mapping[str, str]) -> Set[str]:
    """Every bucket that the plan names anywhere, and those of the results."""
    texts = [plan.command, context.uri]
    texts += [text for declared in plan.inputs for text in texts_in(declared.uri)]
    texts += [output.uri or "" for output in plan.outputs]
    texts += [*texts_in(plan.spec), *texts_in(plan.args)]
    found = {bucket for text in texts for bucket in _S3_URI.findall(text)}
    return found | ({env["S3_BUCKET_NAME"]} if env.get("S3_BUCKET_NAME") else set())


def secret_values(env: Mapping[str, str]) -> Set[str]:
    """Values that must not reach the record."""
    return {value for name, value in env.items() if SECRET_VARIABLES.search(name) and len(value) >= 4}
