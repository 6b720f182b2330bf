"""`tao-run logs`: the log of a job, whole, its end, or followed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from tao_run.cli.arguments import JobArgument
from tao_run.cli.interrupting import detached
from tao_run.cli.output.plain import plain_line
from tao_run.cli.runtime import FormatOption, Runtime, runtime_of
from tao_run.cli.timelimit import time_limit
from tao_run.errors import UsageError
from tao_run.jobs.durations import parse_duration
from tao_run.jobs.model import LogLine, LogQuery

if TYPE_CHECKING:
    from tao_run.jobs.model import Job

app = typer.Typer(add_completion=False)
_MOST_LINES = 1_000_000_000


@app.command()
def logs(
    ctx: typer.Context,
    job: JobArgument,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, max=_MOST_LINES, help="Only the last N lines, in all.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    replica: Annotated[str | None, typer.Option("--replica", help="Only this replica: rank or name.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="From a time (ISO 8601) or age (10m, 2h) on.")] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Show when each line was written.")] = False,
    first_failure: Annotated[
        bool,
        typer.Option("--first-failure", help="Only the lines around the first failure."),
    ] = False,
    grep: Annotated[str | None, typer.Option("--grep", help="Only lines that this regular expression finds.")] = None,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Leave after this long: 30m, 4h.")] = None,
    output: FormatOption = None,
) -> None:
    """Show the log of a job; replicas are merged in time order and labelled.

    Example: tao-run logs @last --tail 100 --follow
    """
    runtime = runtime_of(ctx, output)
    found = runtime.store.resolve(job)
    query = LogQuery(tail, follow, replica, _moment(since, runtime.clock.now()))
    lines = _first_failure(runtime, found, query) if first_failure else runtime.platform_of(found).logs(found, query)
    if grep is not None:
        lines = _matching(lines, grep)
    if follow:
        runtime.interrupted = lambda: detached([runtime.store.get(found.id)], "tao-run logs --follow")
    with time_limit(None if timeout is None else parse_duration(timeout)):
        print_lines(runtime, found, lines, timestamps, follow)


def _first_failure(runtime: Runtime, job: Job, query: LogQuery) -> Iterator[LogLine]:
    from tao_run.jobs.firstfailure import around_failure, replica_of
    from tao_run.jobs.retry import analysis_of

    if query.follow or query.tail is not None:
        raise UsageError("--first-failure shows a part of its own", "leave out --follow and --tail")
    platform = runtime.platform_of(job)
    analysis = analysis_of(platform, job, runtime.clock.now())
    if analysis is None:
        raise UsageError(f"{job.name} shows no failure", f"`tao-run status {job.id}` says how it is")
    runtime.output.note(f"{analysis.title}; `tao-run analyze {job.id}` says more")
    asked = replace(query, replica=query.replica or replica_of(analysis))
    return around_failure(platform.logs(job, asked), analysis)


def _moment(text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return now - timedelta(seconds=parse_duration(text))
    try:
        return moment if moment.tzinfo else moment.astimezone(timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"--since {text}: no such time on this machine") from None


def _matching(lines: Iterator[LogLine], pattern: str) -> Iterator[LogLine]:
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--grep {pattern!r} is not a regular expression: {error}") from None
    return (line for line in lines if line.kind != "line" or wanted.search(line.text))


def print_lines(runtime: Runtime, job: Job, lines: Iterator[LogLine], timestamps: bool, follow: bool) -> None:
    """Print log lines as they come: exact when piped, harmless on a terminal, one JSON object each with JSON."""
    output = runtime.output
    many, harmless = job.nodes > 1, output.interactive
    for line in lines:
        if output.json:
            output.out.write(output.dumps(_line_data(line)) + "\n")
        elif line.kind == "line":
            output.out.write(_line_text(line, harmless, many, timestamps) + "\n")
        else:
            output.note(f"[{line.kind}] {line.text}")
        if follow:
            output.out.flush()
    output.out.flush()


def _line_data(line: LogLine) -> dict[str, object]:
    time = line.time.isoformat() if line.time else None
    return {"text": line.text, "time": time, "rank": line.rank, "replica": line.replica, "kind": line.kind}


def _line_text(line: LogLine, harmless: bool, many: bool, timestamps: bool) -> str:
    text = plain_line(line.text) if harmless else line.text
    label = f"{line.replica if line.rank is None else line.rank}| " if many else ""
    time = f"{line.time.isoformat(timespec='milliseconds') if line.time else '-'} " if timestamps else ""
    return f"{time}{label}{text}"
