"""The options of `preflight`, as types, under the names the field's launch check has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_DATA, _GPU, _RUN = "Data", "GPUs", "Which checks"


def _option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


Many = list[str] | None

JobFile = Annotated[Path | None, typer.Argument(metavar="[JOBFILE]", help="Check the launch of this job file.")]
Platform = Annotated[str | None, _option("--platform", "-p", help="Where the job would run.")]
Model = Annotated[str | None, _option("--model", "--network", "-m", help="TAO model.")]
Action = Annotated[str | None, _option("--action", "-a", help="What the model would do (default: train).")]
Image = Annotated[str | None, _option("--image", "--container-image", help="Container image, or versions.yaml key.")]
Nodes = Annotated[int | None, _option("--nodes", help="How many nodes.")]
Gpus = Annotated[int | None, _option("--gpus", help="GPUs per node.")]
Option = Annotated[Many, _option("--option", "-o", help="Option of the platform: key=value.")]
DockerHost = Annotated[str | None, _option("--docker-host", help="Docker daemon to look at.")]

DataPath = Annotated[Many, _option("--path", help="Data that must be there: LABEL=PATH.", panel=_DATA)]
Results = Annotated[str | None, _option("--results", help="Where results would go; must be writable.", panel=_DATA)]
JsonField = Annotated[
    Many, _option("--json-required-field", help="Fields of every record: LABEL=FIELD,...", panel=_DATA)
]
SampleLimit = Annotated[int, _option("--json-sample-limit", help="How many records to look at.", panel=_DATA, min=1)]
BatchLimit = Annotated[
    Many, _option("--effective-batch-limit", help="Enough records: LABEL=BATCH,SHARDS.", panel=_DATA)
]
FreeDisk = Annotated[
    float, _option("--min-free-disk-gb", help="Free space for jobs on this machine, GiB.", panel=_DATA, min=0)
]

ArchAllowlist = Annotated[
    Many, _option("--gpu-arch-allowlist", help="Only these architectures: LABEL=SM,...", panel=_GPU)
]
ImageSms = Annotated[Many, _option("--image-supported-sm", help="Architectures the image supports: SM,...", panel=_GPU)]
GpuArch = Annotated[Many, _option("--gpu-arch", help="Architecture of the target's GPUs: sm_90.", panel=_GPU)]
MinCount = Annotated[int | None, _option("--gpu-min-count", help="At least so many.", panel=_GPU, min=1)]
MinMemory = Annotated[
    float | None, _option("--gpu-min-memory-gb", "--min-gpu-memory-gb", help="GiB of each.", panel=_GPU, min=0)
]
MinTotalMemory = Annotated[
    float | None, _option("--gpu-min-total-memory-gb", help="GiB of all together.", panel=_GPU, min=0)
]
TargetCount = Annotated[int | None, _option("--target-gpu-count", help="How many the target has.", panel=_GPU, min=1)]
TargetMemory = Annotated[list[float] | None, _option("--target-gpu-memory-gb", help="GiB of each.", panel=_GPU)]
LowVram = Annotated[float, _option("--low-vram-threshold-gb", help="Warn below so many GiB.", panel=_GPU, min=0)]

SkipAccess = Annotated[bool, _option("--skip-platform-access", help="Do not ask the platform.", panel=_RUN)]
Skip = Annotated[Many, _option("--skip", help="Leave out a check by id, or by the first part of it.", panel=_RUN)]
Timeout = Annotated[float, _option("--timeout", help="Seconds for each check.", panel=_RUN, min=0.1)]
