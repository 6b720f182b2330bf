"""`tao-run resolve-image`: the container image of a model and action, and where that is said."""

from __future__ import annotations

from typing import Annotated

import typer

from tao_run.cli.catalog_options import SkillBank, catalog_of
from tao_run.cli.runtime import FormatOption, runtime_of

app = typer.Typer(add_completion=False)


@app.command()
def resolve_image(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Option("--model", "--network", "-m", help="Model: skill name, architecture, alias or Hugging Face id."),
    ],
    action: Annotated[str, typer.Option("--action", "-a", help="What the model shall do.")] = "train",
    image: Annotated[
        str | None, typer.Option("--image", help="Use this image (or versions.yaml key) instead of the default.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", help="For models that run on one of several backends.")
    ] = None,
    skill_bank: SkillBank = None,
    output: FormatOption = None,
) -> None:
    """Show the image, the declared key, the file that declares it and how it was resolved.

    Example: tao-run resolve-image --model dino --action gen_trt_engine
    """
    from tao_run.catalog.reports import resolved_image

    runtime = runtime_of(ctx, output)
    catalog = catalog_of(runtime, skill_bank)
    runtime.output.emit(resolved_image(catalog, catalog.resolve_image(model, action, image, backend)))
