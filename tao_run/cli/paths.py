"""`tao-run paths`: whether something is at a path, and what is below it."""

from __future__ import annotations

from typing import Annotated

import typer

from tao_run.cli.runtime import FormatOption, Runtime, leave, runtime_of

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Check or list s3:// URIs and paths.\n\nExample: tao-run paths check s3://my-bucket/coco/train",
)

Paths = Annotated[list[str], typer.Argument(metavar="URI...", help="s3://bucket/path, or an absolute path.")]
PlatformOption = Annotated[
    str | None, typer.Option("--platform", "-p", help="Whose jobs shall see the path (default: this machine).")
]
_NOT_THERE = 1


@app.command()
def check(ctx: typer.Context, paths: Paths, platform: PlatformOption = None, output: FormatOption = None) -> None:
    """Say for each path whether it exists: exactly this object, or something below it. Exit 1 if one does not.

    Example: tao-run paths check s3://my-bucket/coco/train
    """
    from tao_run.storage.paths import PathState, PathStates

    runtime = runtime_of(ctx, output)
    found = tuple(PathState(path, _exists(runtime, path, platform)) for path in paths)
    runtime.output.emit(PathStates(found))
    leave(0 if all(state.exists for state in found) else _NOT_THERE)


@app.command()
def ls(ctx: typer.Context, paths: Paths, platform: PlatformOption = None, output: FormatOption = None) -> None:
    """List what is directly below each path; folders end in a slash.

    Example: tao-run paths ls s3://my-bucket/coco/
    """
    from tao_run.storage.paths import PathListing, list_path

    runtime = runtime_of(ctx, output)
    names: list[str] = []
    for path in paths:
        if platform is None:
            names.extend(list_path(path, runtime.credentials))
        else:
            names.extend(runtime.platform(platform).list_path(path))
    runtime.output.emit(PathListing(tuple(names)))


def _exists(runtime: Runtime, path: str, platform: str | None) -> bool:
    from tao_run.storage import check_path

    if platform is None:
        return check_path(path, runtime.credentials)
    return runtime.platform(platform).check_path(path)
