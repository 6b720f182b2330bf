"""What the adapters put into their native objects: script, payload, variables, and secrets by reference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tao_run.credentials import Credentials
from tao_run.entrypoint import bundle
from tao_run.entrypoint.plans import command_text, flag_words, make_plan
from tao_run.runner import template

if TYPE_CHECKING:
    from tao_run.jobs.model import Job
    from tao_run.jobs.request import JobRequest

_S3_SECRETS = {
    "AWS_ACCESS_KEY_ID": ("ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
    "AWS_SECRET_ACCESS_KEY": ("SECRET_KEY", "AWS_SECRET_ACCESS_KEY"),
    "AWS_SESSION_TOKEN": ("AWS_SESSION_TOKEN",),
}
_HUB_SECRETS = {
    "HF_TOKEN": ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
    "NGC_KEY": ("NGC_KEY", "NGC_API_KEY", "NGC_CLI_API_KEY"),
}
_HUB_SCHEMES = ("hf_model://", "hf_dataset://", "ngc://")
# What a command mentions that only the runner provides ({config_path} means something only beside a spec).
_RUNNER_NAMES = {"results_dir"}
_RUNNER_VARIABLES = ("TAO_RESULTS_DIR", "CLOUD_METADATA")


@dataclass(frozen=True)
class Entry:
    """`script` is bash text for `/bin/bash -c`.

    With a `payload`, the platform stages these bytes as one file and sets TAO_RUN_PAYLOAD to its path in the
    container. `env` are plain variables. `secrets` maps a variable of the container to the name of the
    credential whose value it gets, at launch and by reference.
    """

    script: str
    payload: bytes | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


def entry_for(
    job: Job,
    *,
    mount: str | None = None,
    results_root: str | None = None,
    credentials: Credentials | None = None,
) -> Entry:
    """The entry of a job. Reads presence and settings from `credentials`, never a secret's value.

    Args:
        mount: path in the container of a shared file system that caches inputs, unless the request says no.
        results_root: where results of jobs go: a directory in the container that persists, or an s3:// URI.

    Raises UsageError for a request that the runner could not carry out.
    """
    request = job.request
    credentials = credentials or Credentials.load()
    runner_needed = needs_runner(request)
    if runner_needed:
        script, payload = _runner_script(make_plan(**_plan_of(job, mount, results_root)))
    else:
        script, payload = _plain_script(job)
    uses_store = bundle.marks(script) or payload is not None or runner_needed
    return Entry(
        script,
        payload,
        env=_environment(job, results_root, credentials),
        secrets=_secrets(request, uses_store, _embeds_runner(request), credentials),
    )


def needs_runner(request: JobRequest) -> bool:
    """Whether a job has anything for the runner to do. If not, its image needs no Python."""
    declared = (request.inputs, request.outputs, request.flags, request.upload_interval, request.results)
    if request.spec is not None or request.args is not None or any(declared):
        return True
    text = command_text(request.command or "")
    return bool(template.names_in(text) & _RUNNER_NAMES) or any(name in text for name in _RUNNER_VARIABLES)


def _plan_of(job: Job, mount: str | None, results_root: str | None) -> dict[str, Any]:
    request = job.request
    return {
        "command": request.command or "",
        "spec": request.spec,
        "args": request.args,
        "flags": flag_words(request.flags),
        "inputs": request.inputs,
        "outputs": request.outputs,
        "config_format": request.config_format,
        "upload_excludes": request.upload_excludes,
        "upload_interval": request.upload_interval,
        "mount": _mount(request, mount),
        "results_uri": _results_uri(job, results_root),
        "results_local_only": bool(request.results) and not _is_s3(request.results or ""),
        "refresh": job.created_at.timestamp() if request.refresh else None,
        "job_id": job.id,
        "split_id": request.split_id,
    }


def _mount(request: JobRequest, mount: str | None) -> str | None:
    if request.mount is False:
        return None
    named = request.mount if isinstance(request.mount, str) and request.mount.startswith("/") else None
    return mount or named


def _is_s3(text: str) -> bool:
    return text.startswith("s3://")


def _results_uri(job: Job, results_root: str | None) -> str | None:
    """The s3:// prefix of the results, as the record has it."""
    if _is_s3(job.results_dir):
        return job.results_dir
    return f"{results_root.rstrip('/')}/{job.id}" if results_root and _is_s3(results_root) else None


def _runner_script(plan: Mapping[str, Any]) -> tuple[str, bytes | None]:
    script = bundle.inline_script(plan)
    if len(script.encode()) < bundle.LIMIT:
        return script, None
    return bundle.payload_script(), bundle.archive(plan)


def _plain_script(job: Job) -> tuple[str, bytes | None]:
    """The user's own command. One that is too long for an argument is staged as a file of bash text."""
    command = job.request.command or ""
    names = {"job_id": job.id, **({"split_id": job.request.split_id} if job.request.split_id is not None else {})}
    text = template.fill_bash(command_text(command), names)
    if not isinstance(command, str):
        text = f"exec {text}"  # signals reach the command itself, not a shell in between
    if len(text.encode()) < bundle.LIMIT:
        return text, None
    return f'exec /bin/bash "${bundle.PAYLOAD_VARIABLE}"', text.encode()


def _environment(job: Job, results_root: str | None, credentials: Credentials) -> dict[str, str]:
    endpoint = credentials.setting("S3_ENDPOINT_URL") or credentials.setting("AWS_ENDPOINT_URL")
    region = credentials.setting("CLOUD_REGION") or credentials.setting("AWS_REGION")
    known = {
        "TAO_JOB_ID": job.id,
        "TAO_RESULTS_ROOT": results_root if results_root and not _is_s3(results_root) else "",
        "TAO_SPLIT_ID": job.request.split_id or "",
        "S3_BUCKET_NAME": credentials.setting("S3_BUCKET_NAME"),
        "S3_ENDPOINT_URL": endpoint,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": region,
        "CLOUD_REGION": region,
    }
    return {**{name: value for name, value in known.items() if value}, **job.request.env}


def _embeds_runner(request: JobRequest) -> bool:
    """Whether the command comes from `build_entrypoint`: what its plan needs cannot be seen from outside."""
    return isinstance(request.command, str) and bundle.marks(request.command)


def _secrets(request: JobRequest, uses_store: bool, uses_all: bool, credentials: Credentials) -> dict[str, str]:
    """Names of credentials that the job needs and the user has."""
    text = json.dumps(request.model_dump(mode="json", include=_URI_FIELDS))
    wanted: dict[str, tuple[str, ...]] = {}
    if uses_store or "s3://" in text:
        wanted.update(_S3_SECRETS)
    if uses_all or request.model or any(scheme in text for scheme in _HUB_SCHEMES):
        wanted.update(_HUB_SECRETS)
    found = {
        variable: next((name for name in names if credentials.has(name)), "") for variable, names in wanted.items()
    }
    return {**{variable: name for variable, name in found.items() if name}, **request.secrets}


_URI_FIELDS = {"command", "spec", "args", "inputs", "outputs", "results"}
