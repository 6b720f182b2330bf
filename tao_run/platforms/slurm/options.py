"""Options of the SLURM platform (`-o key=value`), and their defaults from the environment."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from tao_run.credentials import Credentials
from tao_run.errors import UsageError
from tao_run.jobs.commas import listed
from tao_run.jobs.request import JobRequest, parse_model
from tao_run.platforms.slurm.times import time_limit

# What we set ourselves: a second value would break finding, logging or cancelling the job.
_OURS = re.compile(
    r"(--(job-name|output|error|open-mode|chdir|array|parsable|wrap|export|export-file|nodes|ntasks|ntasks-per-node"
    r"|input|wait|test-only)\b|-[JoeDaNnW](\b|\d|=))"
)
# variable of the environment -> option
_DEFAULTS = {
    "SLURM_PARTITION": "partition",
    "SLURM_ACCOUNT": "account",
    "SLURM_QOS": "qos",
    "SLURM_CONTAINER_MOUNTS": "container_mounts",
    "SLURM_MAIL_USER": "mail_user",
    "SLURM_SQSH_CACHE_DIR": "sqsh_cache",
    "SLURM_CONVERSION_PARTITION": "sqsh_partition",
    "SLURM_CPUS_PER_TASK": "cpus_per_task",
}


def _lines(value: object) -> object:
    return [line.strip() for line in value.splitlines() if line.strip()] if isinstance(value, str) else value


def _text(value: object) -> object:
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


Word = Annotated[str, BeforeValidator(_text), Field(min_length=1, pattern=r"^[^\s\"'`$\\]+$")]
List = Annotated[list[str], BeforeValidator(listed)]


class Options(BaseModel):
    """What can be asked of SLURM beyond the request itself. What is not given is left to the cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: Word | None = Field(None, description="partition, or several separated by commas")
    account: Word | None = Field(None, description="account that is charged")
    qos: Word | None = Field(None, description="quality of service")
    time: Word | None = Field(None, description="time limit: 4h, 240 (minutes), 4:00:00, 1-12:00:00; else max_time")
    gpu_type: Word | None = Field(None, description="type of GPU, as in the cluster's GRES (h100)")
    gpu_syntax: Literal["gres", "gpus-per-node"] = Field("gres", description="how GPUs are asked for")
    cpus_per_task: int | None = Field(None, ge=1, description="CPU cores per node")
    mem: Word | None = Field(None, description="host memory per node (64G; 0 for all of it)")
    constraint: Word | None = Field(None, description="features that nodes must have")
    reservation: Word | None = Field(None, description="reservation to run in")
    exclusive: bool = Field(False, description="share nodes with no other job")
    nodelist: Word | None = Field(None, description="run on these nodes")
    exclude: Word | None = Field(None, description="do not run on these nodes")
    dependency: Word | None = Field(None, description="start after other jobs (afterok:123)")
    begin: Word | None = Field(None, description="do not start before (now+2hours, 2030-01-01T08:00)")
    hold: bool = Field(False, description="submit held; `scontrol release` lets it start")
    signal: Word | None = Field(None, description="signal before the time limit (TERM@120)")
    requeue: bool = Field(False, description="let SLURM run it again after preemption or a node failure")
    mail_user: Word | None = Field(None, description="who gets mail")
    mail_type: Word | None = Field(None, description="when: BEGIN, END, FAIL, ALL; END,FAIL if mail_user is given")
    container: Literal["pyxis", "apptainer", "enroot", "none"] = Field(
        "pyxis", description="what runs the image; none runs on the node itself"
    )
    container_mounts: List = Field(default_factory=list, description="SRC[:DST[:FLAGS]], separated by commas")
    container_workdir: Word | None = Field(None, description="working directory in the container")
    srun: Annotated[list[str], BeforeValidator(_lines)] = Field(
        default_factory=list, description="more options of srun, one per line"
    )
    sbatch: Annotated[list[str], BeforeValidator(_lines)] = Field(
        default_factory=list, description="more #SBATCH options, one per line (--comment=x)"
    )
    sqsh_cache: Word | None = Field(None, description="import images once, as squashfs files, into this directory")
    sqsh_partition: Word | None = Field(None, description="partition of the import job; else the job's")
    sqsh_time: Word = Field("1h", description="time limit of the import job")

    @field_validator("time", "sqsh_time")
    @classmethod
    def _is_time(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                time_limit(value)
            except UsageError as error:
                raise ValueError(f"{error.message}; {error.hint}") from None
        return value

    @field_validator("sbatch", "srun")
    @classmethod
    def _is_option(cls, lines: list[str]) -> list[str]:
        for line in lines:
            if not line.startswith("-") or "\n" in line:
                raise ValueError(f"{line!r} is not an option: write --name=value")
            if _OURS.match(line):
                raise ValueError(f"{line!r} is set by tao-run itself")
        return lines

    @field_validator("container_mounts")
    @classmethod
    def _is_mount(cls, mounts: list[str]) -> list[str]:
        for mount in mounts:
            source, _, rest = mount.partition(":")
            if not source.startswith(("/", "~/")) or re.search(r"[\s\"'`$\\]", mount) or rest.count(":") > 1:
                raise ValueError(f"{mount!r} is not a mount: write /SRC, /SRC:/DST or /SRC:/DST:ro")
        return mounts


def read_options(request: JobRequest) -> Options:
    """The SLURM options of a request. Raises UsageError naming every fault."""
    options: Options = parse_model(Options, request.for_platform(), "options of platform slurm")
    return options


def with_defaults(request: JobRequest, credentials: Credentials) -> JobRequest:
    """The request with options that the environment names and it does not: what is recorded can be repeated."""
    given = request.for_platform()
    found: dict[str, Any] = {
        option: value
        for name, option in _DEFAULTS.items()
        if (value := credentials.setting(name)) and option not in given
    }
    if "cpus_per_task" in found:
        found["cpus_per_task"] = _number("SLURM_CPUS_PER_TASK", found["cpus_per_task"], int)
    hours = credentials.setting("SLURM_TIME_HOURS")
    if hours and "time" not in given and request.max_time is None:
        found["time"] = str(max(1, round(_number("SLURM_TIME_HOURS", hours, float) * 60)))
    if not found:
        return request
    return request.model_copy(update={"options": {**request.options, "slurm": {**found, **given}}})


def _number(name: str, text: str, kind: Any) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{name}={text!r} is not a number", f"correct or unset {name}") from None


def limit_seconds(request: JobRequest, options: Options) -> int | None:
    """The job's time limit in seconds; None leaves it to the partition."""
    return time_limit(options.time) if options.time else request.max_time
