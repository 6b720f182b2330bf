"""`tao-run resources`: what can be asked for on a platform."""

from __future__ import annotations

import typer

from tao_run.cli.arguments import PlatformOption
from tao_run.cli.outcomes import ResourceList
from tao_run.cli.runtime import FormatOption, runtime_of
from tao_run.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command()
def resources(
    ctx: typer.Context,
    platform: PlatformOption = None,
    output: FormatOption = None,
) -> None:
    """Show shapes, node groups and volumes (Lepton), partitions and GPUs (SLURM), GPUs, or instances (Brev).

    Example: tao-run resources --platform local
    """
    runtime = runtime_of(ctx, output)
    if platform is None:
        raise UsageError("no platform given", "add --platform; `tao-run platforms` describes them")
    chosen = runtime.platform(platform)
    runtime.output.emit(ResourceList(chosen.name, tuple(chosen.resources())))
