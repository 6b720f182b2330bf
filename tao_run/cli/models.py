"""`tao-run models`: TAO models, their actions, images and AutoML state."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from tao_run.cli.catalog_options import SkillBank, catalog_of
from tao_run.cli.runtime import FormatOption, runtime_of

app = typer.Typer(add_completion=False)


class Scope(str, Enum):
    """Which list is wanted."""

    all = "all"
    automl = "automl"


@app.command()
def models(
    ctx: typer.Context,
    automl: Annotated[
        bool, typer.Option("--automl", help="Which models AutoML can train, and why not others.")
    ] = False,
    scope: Annotated[Scope, typer.Option("--scope", help="`automl` is the same as --automl.")] = Scope.all,
    action: Annotated[str | None, typer.Option("--action", help="Only models that have this action.")] = None,
    skill_bank: SkillBank = None,
    output: FormatOption = None,
) -> None:
    """Show TAO models with their actions, image and AutoML state.

    Example: tao-run models --action gen_trt_engine
    """
    from tao_run.catalog.reports import list_automl, list_models

    runtime = runtime_of(ctx, output)
    catalog = catalog_of(runtime, skill_bank)
    wanted = list_automl if automl or scope is Scope.automl else list_models
    runtime.output.emit(wanted(catalog, action))
