"""Text views by type of result: each room of the command line registers its own, loaded when needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tao_run.cli.output.plain import plain

if TYPE_CHECKING:
    from tao_run.cli.output import Output

# module of the result type -> module of its views
_VIEWS = {
    "tao_run.cli.rows": "tao_run.cli.output.status",
    "tao_run.cli.outcomes": "tao_run.cli.output.jobs",
    "tao_run.cli.instances": "tao_run.cli.output.instances",
    "tao_run.catalog": "tao_run.cli.output.catalog",
    "tao_run.preflight": "tao_run.cli.output.preflight",
    "tao_run.storage": "tao_run.cli.output.storage",
    "tao_run.analysis": "tao_run.cli.output.analysis",
}
_BETWEEN = 3  # blanks between two columns
_registered: dict[type[Any], Callable[[Any, Output], None]] = {}


def view(kind: type[Any]) -> Callable[[Callable[[Any, Output], None]], Callable[[Any, Output], None]]:
    """Register a function as the text view of a result type."""

    def register(function: Callable[[Any, Output], None]) -> Callable[[Any, Output], None]:
        _registered[kind] = function
        return function

    return register


def text_view(result: Any, output: Output) -> None:
    """Print a result by its view."""
    kind = type(result)
    if kind not in _registered:
        module = next(views for prefix, views in _VIEWS.items() if kind.__module__.startswith(prefix))
        importlib.import_module(module)
    _registered[kind](result, output)


def table(
    output: Output,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    keep: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Draw a table. Columns named in `keep` are never cut; text from outside appears as it is.

    On a terminal that is too narrow the columns of `spare` are left out, the first one first.
    """
    from rich.table import Table
    from rich.text import Text

    console = output.console()
    columns, rows = fitting(console.width, columns, list(rows), spare)
    drawn = Table(box=_line_under_the_head() if output.interactive else None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, no_wrap=column in keep, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(plain(cell).replace("\n", " ")) for cell in row))
    console.print(drawn)


def fitting(
    width: int, columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], most: int = 10_000
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Columns and cells without those of `spare`, the first one first, that a terminal of `width` has no room for.

    A column counts for at most `most` characters: what is longer may be cut.
    """
    widths = [min(most, max(map(len, cells))) + _BETWEEN for cells in zip(columns, *rows, strict=True)]
    left_out: set[int] = set()
    for name in (name for name in spare if name in columns):
        if sum(size for n, size in enumerate(widths) if n not in left_out) <= width:
            break
        left_out.add(list(columns).index(name))
    shown = [n for n in range(len(columns)) if n not in left_out]
    return [columns[n] for n in shown], [[row[n] for n in shown] for row in rows]


def _line_under_the_head() -> Any:
    from rich.box import SIMPLE_HEAD

    return SIMPLE_HEAD
