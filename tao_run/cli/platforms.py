"""`tao-run platforms`: what a platform is called and needs."""

from __future__ import annotations

from typing import Annotated

import typer

from tao_run.cli.catalog_options import SkillBank, catalog_of
from tao_run.cli.runtime import FormatOption, runtime_of

app = typer.Typer(add_completion=False)


@app.command()
def platforms(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A platform or alias: show all it needs.")
    ] = None,
    platform: Annotated[str | None, typer.Option("--platform", "-p", help="The same as NAME.")] = None,
    ready: Annotated[
        bool, typer.Option("--ready", help="Also say which credentials are set here (never values).")
    ] = False,
    skill_bank: SkillBank = None,
    output: FormatOption = None,
) -> None:
    """Show the platforms; for one: credentials with their conditions, storage, defaults, launch checks.

    Example: tao-run platforms slurm --ready
    """
    from tao_run.catalog.reports import describe_platform, list_platforms

    runtime = runtime_of(ctx, output)
    catalog = catalog_of(runtime, skill_bank)
    credentials = runtime.credentials if ready else None
    chosen = name or platform
    if chosen:
        runtime.output.emit(describe_platform(catalog, chosen, credentials))
    else:
        runtime.output.emit(list_platforms(catalog, credentials))
