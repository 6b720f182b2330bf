"""Text views of paths."""

from __future__ import annotations

from tao_run.cli.output import Output
from tao_run.cli.output.plain import plain_line
from tao_run.cli.output.views import view
from tao_run.storage.paths import PathListing, PathStates


@view(PathStates)
def path_states(result: PathStates, output: Output) -> None:
    """One line per path."""
    for state in result.paths:
        output.line(plain_line(f"{'exists ' if state.exists else 'missing'}  {state.path}"))


@view(PathListing)
def path_listing(result: PathListing, output: Output) -> None:
    """One name per line, nothing else: made for pipes."""
    for entry in result.entries:
        output.line(plain_line(entry))
