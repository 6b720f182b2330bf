"""The options of `submit`, as types: what the command line can say, in the words of the job file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tao_run.cli import complete

_MODEL, _DATA, _RUN = "TAO model", "Data", "While it runs"


def _option(name: str, help_text: str, panel: str | None = None, **more: object) -> object:
    return typer.Option(name, help=help_text, rich_help_panel=panel, **more)  # type: ignore[arg-type]


JobFilePath = Annotated[
    str | None, typer.Argument(metavar="[JOBFILE]", help="A job file; tao-run.yaml of this directory if nothing else.")
]
Command = Annotated[str | None, typer.Option("--command", "-c", help="Bash text to run; or arguments after `--`.")]
PlatformName = Annotated[
    str | None, typer.Option("--platform", "-p", help="Where it runs.", autocompletion=complete.platforms)
]
Name = Annotated[str | None, _option("--name", "A name for people.")]
Image = Annotated[str | None, _option("--image", "Container image, or a key of versions.yaml.")]
Nodes = Annotated[int | None, _option("--nodes", "How many nodes.")]
Gpus = Annotated[int | None, _option("--gpus", "GPUs per node.")]
Env = Annotated[list[str] | None, _option("--env", "Plain variable of the container: K=V, or K to pass it on.")]
EnvFile = Annotated[Path | None, _option("--env-file", "File with plain variables, one K=V a line.")]
Secret = Annotated[list[str] | None, _option("--secret", "Credential by name: NAME, or CONTAINER_NAME=NAME.")]
MaxTime = Annotated[str | None, _option("--max-time", "Time limit: 90m, 4h, 1d.")]
Label = Annotated[list[str] | None, _option("--label", "Label: K=V.")]
Option = Annotated[list[str] | None, typer.Option("--option", "-o", help="Option of the platform: key=value.")]

Model = Annotated[str | None, _option("--model", "TAO model.", _MODEL, autocompletion=complete.models)]
Action = Annotated[
    str | None, _option("--action", "What it does: train, export, ...", _MODEL, autocompletion=complete.actions)
]
Spec = Annotated[Path | None, _option("--spec", "Spec file (YAML, JSON, TOML).", _MODEL)]
Set = Annotated[list[str] | None, _option("--set", "Spec key=value, like train.num_epochs=10.", _MODEL)]
AutomlPolicy = Annotated[str | None, _option("--automl-policy", "off: a plain run, nothing said.", _MODEL)]
SkillBank = Annotated[Path | None, _option("--skill-bank", "Skill bank to read instead of the packaged one.", _MODEL)]

Input = Annotated[list[str] | None, _option("--input", "Spec key or container path = URI.", _DATA)]
OutputPath = Annotated[list[str] | None, _option("--output", "Spec key or container path [= URI].", _DATA)]
Mount = Annotated[str | None, _option("--mount", "Shared mount to use.", _DATA)]
NoMount = Annotated[bool, _option("--no-mount", "Use no shared mount.", _DATA)]
Results = Annotated[str | None, _option("--results", "Root of the results: s3:// URI or directory.", _DATA)]
Resume = Annotated[
    str | None, _option("--resume", "Continue from the checkpoints of a job.", _DATA, autocompletion=complete.jobs)
]
Refresh = Annotated[bool, _option("--refresh", "Do not trust inputs kept on the mount.", _DATA)]

Split = Annotated[str | None, _option("--split", "Submit one job per split id: 0-7, or 0,3,5.", _RUN)]
Splits = Annotated[int | None, _option("--splits", "Submit N jobs with split ids 0 to N-1.", _RUN, min=1, max=10_000)]
Retries = Annotated[int | None, _option("--retries", "Submit again after infrastructure failures, N times.", _RUN)]
WatchFlag = Annotated[
    bool | None, typer.Option("--watch/--detach", help="Watch it (the default), or print its id and leave.")
]
Interval = Annotated[
    float | None, _option("--interval", "Minutes between looks while watching (default 5).", _RUN, min=0.001)
]
DryRunFlag = Annotated[
    str | None,
    typer.Option("--dry-run", metavar="", help="Print what would be sent; --dry-run=server also asks the server."),
]
NoPreflight = Annotated[bool, _option("--no-preflight", "Skip the launch checks.", _RUN)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Accept the image and other questions.")]
