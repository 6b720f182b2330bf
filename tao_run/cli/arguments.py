"""Arguments and options that several commands share, with what a shell completes for them."""

from __future__ import annotations

from typing import Annotated

import typer

from tao_run.cli import complete

_JOB_HELP = "Id, prefix, name or @last."

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help=_JOB_HELP, autocompletion=complete.jobs)]
MaybeJobArgument = Annotated[str | None, typer.Argument(metavar="[JOB]", help=_JOB_HELP, autocompletion=complete.jobs)]
JobsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[JOB]...", help="Ids, prefixes, names or @last.", autocompletion=complete.jobs),
]
GroupOption = Annotated[
    str | None, typer.Option("--group", help="The jobs of a group.", autocompletion=complete.groups)
]
PlatformOption = Annotated[
    str | None, typer.Option("--platform", "-p", help="The platform.", autocompletion=complete.platforms)
]
