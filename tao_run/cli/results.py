"""`tao-run results`: where the results of a job are, and what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tao_run.cli.arguments import JobArgument
from tao_run.cli.outcomes import CheckpointList, ResultEntry, ResultList
from tao_run.cli.runtime import FormatOption, runtime_of
from tao_run.errors import UsageError
from tao_run.jobs.checkpoints import checkpoints_of

app = typer.Typer(add_completion=False)


@app.command()
def results(
    ctx: typer.Context,
    job: JobArgument,
    listing: Annotated[bool, typer.Option("--list", "-l", help="List every file.")] = False,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="List checkpoints, the furthest last.")] = False,
    download: Annotated[Path | None, typer.Option("--download", help="Copy all files into this directory.")] = None,
    output: FormatOption = None,
) -> None:
    """Show where the results of a job are; list them or download them.

    Example: tao-run results @last --list
    """
    runtime = runtime_of(ctx, output)
    found = runtime.store.resolve(job)
    if not found.results_dir:
        raise UsageError(f"{found.name} has no durable results directory", "submit with --results URI_OR_DIR")
    platform = runtime.platform_of(found)
    if checkpoints:
        runtime.output.emit(
            CheckpointList(found.id, found.results_dir, tuple(checkpoints_of(platform.list_results(found))))
        )
        return
    files = tuple(ResultEntry(*entry) for entry in platform.list_results(found)) if listing else None
    if download is not None:
        count = platform.download_results(found, download)
        runtime.output.note(f"{count} files downloaded to {download}")
    runtime.output.emit(ResultList(found.id, found.results_dir, files, str(download) if download else None))
