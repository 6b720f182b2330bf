"""`tao-run resources`: what can be asked for on a platform."""

from __future__ import annotations

from typing import Annotated

import typer

from tao_run.cli.rows import ResourceList
from tao_run.cli.runtime import FormatOption, runtime_of

app = typer.Typer(add_completion=False)


@app.command()
def resources(
    ctx: typer.Context,
    platform: Annotated[str, typer.Option("--platform", "-p", help="The platform to ask.")],
    output: FormatOption = None,
) -> None:
    """Show shapes, node groups and volumes (Lepton), partitions and GPUs (SLURM), GPUs, or instances (Brev).

    Example: tao-run resources --platform local
    """
    runtime = runtime_of(ctx, output)
    chosen = runtime.platform(platform)
    runtime.output.emit(ResourceList(chosen.name, tuple(chosen.resources())))
