"""The three faces of watch: a live table, a line per change, a JSON object per change."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tao_run.cli.output import Output
from tao_run.cli.output.plain import plain
from tao_run.cli.output.status import ready_cell, state_cell
from tao_run.cli.output.views import fitting
from tao_run.cli.watchrows import WatchRow, WatchSummary, summary
from tao_run.clock import Clock
from tao_run.jobs.durations import short_duration

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

# what is shown first when the terminal is not tall enough for all
_ORDER = {"Error": 0, "Unknown": 1, "Paused": 2, "Running": 3, "Pending": 4, "Canceled": 5, "Complete": 6}
_STYLES = {"Error": "bold red", "Running": "green", "Complete": "dim", "Pending": "yellow", "Canceled": "dim"}
_COLUMNS = ("ID", "NAME", "PLATFORM", "STATE", "REASON", "READY", "AGE", "CHANGED", "CAUSE")
_ALWAYS = 4  # columns that are shown even when empty
# what a narrow terminal does without, the first one first, and what a longer cell is counted as
_SPARE = ("CHANGED", "AGE", "PLATFORM", "READY", "REASON", "NAME")
_LONGEST_CELL = 20
_LINES_AROUND = 6


class Face:
    """How a watch is shown: rows that changed are said once, and a summary when an interval has passed quietly."""

    def __init__(self, output: Output, clock: Clock, interval: float) -> None:
        self.output = output
        self.clock = clock
        self.interval = interval
        self._said = clock.monotonic()

    def __enter__(self) -> Face:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def show(self, rows: Sequence[WatchRow], changed: Sequence[WatchRow], next_look: float) -> None:
        """What is known now. `next_look` is in seconds from now."""
        for row in changed:
            self.row(row)
        now = self.clock.monotonic()
        if changed:
            self._said = now
        elif now - self._said >= self.interval:
            self._said = now
            self.quiet(summary(rows))

    def row(self, row: WatchRow) -> None:
        """Say one change."""
        text = " ".join(filter(None, (row.id, row.name, state_cell(row), ready_cell(row), row.reason)))
        why = row.cause or row.message
        self.output.line(plain(f"{self._time()} {text}{': ' + why if why else ''}").replace("\n", " "))

    def quiet(self, total: WatchSummary) -> None:
        """Say that nothing has changed for an interval."""
        self.output.line(f"{self._time()} {_in_words(total)}")

    def end(self, rows: Sequence[WatchRow], code: int) -> None:
        """The watch is over."""
        self.close()
        self.output.note(f"{_in_words(summary(rows))}; exit code {code}")

    def close(self) -> None:
        """Leave the terminal as it was."""

    def _time(self) -> str:
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


class JsonFace(Face):
    """One JSON object per line: `event` is `job` for a change, `summary` for the rest."""

    def row(self, row: WatchRow) -> None:
        self.output.json_line(row)

    def quiet(self, total: WatchSummary) -> None:
        self.output.json_line(total)

    def end(self, rows: Sequence[WatchRow], code: int) -> None:
        self.output.json_line(summary(rows, code))


class TableFace(Face):
    """A live table on a terminal, drawn anew every second so that ages are true."""

    def __init__(self, output: Output, clock: Clock, interval: float) -> None:
        super().__init__(output, clock, interval)
        self._rows: Sequence[WatchRow] = ()
        self._shown_at = self._next_at = clock.monotonic()
        self._live: Live | None = None
        self._err = output.err

    def __enter__(self) -> Face:
        from rich.live import Live

        console = self.output.console()
        self._live = Live(console=console, get_renderable=self.table, refresh_per_second=1, redirect_stderr=False)
        self.output.err = _Above(console)  # type: ignore[assignment]
        self._live.start()
        return self

    def show(self, rows: Sequence[WatchRow], changed: Sequence[WatchRow], next_look: float) -> None:
        self._rows = rows
        self._shown_at = self.clock.monotonic()
        self._next_at = self._shown_at + next_look
        if self._live is not None:
            self._live.refresh()

    def close(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            self.output.err = self._err
            live.stop()

    def table(self) -> Table:
        """The rows that fit, the most urgent first."""
        from rich.table import Table
        from rich.text import Text

        now = self.clock.monotonic()
        console = self.output.console()
        room = max(3, console.height - _LINES_AROUND)
        wait = max(0.0, self._next_at - now)
        caption = f"{_in_words(summary(self._rows))}; next look in {short_duration(wait)}; Ctrl-C detaches"
        drawn = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
        first = sorted(self._rows, key=lambda row: (row.reachable, _ORDER[row.state]))[:room]
        cells = [self._cells(row, now - self._shown_at) for row in first]
        used = [n for n, _ in enumerate(_COLUMNS) if n < _ALWAYS or any(line[n] for line in cells)]
        filled = [[line[n] for n in used] for line in cells]
        columns, lines = fitting(console.width, [_COLUMNS[n] for n in used], filled, _SPARE, most=_LONGEST_CELL)
        for name in columns:
            drawn.add_column(name, no_wrap=name in ("ID", "STATE"), overflow="ellipsis")
        for row, line in zip(first, lines, strict=True):
            style = _STYLES.get(row.state, "") if row.reachable else "magenta"
            drawn.add_row(*(Text(cell, style=style) for cell in line))
        if len(self._rows) > room:
            drawn.add_row(Text(f"... and {len(self._rows) - room} more"))
        return drawn

    def _cells(self, row: WatchRow, later: float) -> tuple[str, ...]:
        changed = "" if row.changed_at is None else short_duration((self.clock.now() - row.changed_at).total_seconds())
        why = row.cause or row.message
        age = short_duration(row.age_seconds + later)
        cells = (row.id, row.name, row.platform, state_cell(row), row.reason, ready_cell(row), age, changed, why)
        return tuple(plain(cell).replace("\n", " ") for cell in cells)


class _Above:
    """A stream whose lines appear above the live table."""

    def __init__(self, console: Any) -> None:
        self._console = console

    def write(self, text: str) -> int:
        from rich.text import Text

        self._console.print(Text(text.rstrip("\n")))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


def face_for(output: Output, clock: Clock, interval: float) -> Face:
    """The face that fits the output: JSON, a terminal, or anything else."""
    if output.json:
        return JsonFace(output, clock, interval)
    return TableFace(output, clock, interval) if output.interactive else Face(output, clock, interval)


def _in_words(total: WatchSummary) -> str:
    states = ", ".join(f"{count} {state}" for state, count in total.states.items())
    stale = f"; {total.stale} not reached at the last look" if total.stale else ""
    return f"{total.jobs} job{'' if total.jobs == 1 else 's'}: {states or 'none'}{stale}"
