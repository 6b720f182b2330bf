"""`tao-run watch`: jobs until they have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tao_run.cli.arguments import GroupOption, JobsArgument
from tao_run.cli.interrupting import detached
from tao_run.cli.runtime import FormatOption, Runtime, leave, runtime_of
from tao_run.errors import UsageError
from tao_run.jobs.durations import parse_duration

if TYPE_CHECKING:
    from tao_run.jobs.model import Job

app = typer.Typer(add_completion=False)


@app.command()
def watch(
    ctx: typer.Context,
    jobs: JobsArgument = None,
    group: GroupOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All jobs that have not ended.")] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.001, help="Minutes between looks.")] = 5.0,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Leave after this long: 30m, 4h.")] = None,
    on_change: Annotated[
        str | None,
        typer.Option("--on-change", metavar="CMD", help="Run this at each change; the job is JSON on stdin."),
    ] = None,
    output: FormatOption = None,
) -> None:
    """Watch jobs of any mix of platforms until all have ended; the exit code tells the outcome.

    Never gives up by itself: hours of Pending, an unreachable backend and a sleeping laptop are waited out.
    Ctrl-C detaches, the jobs go on. Example: tao-run watch @last
    """
    runtime = runtime_of(ctx, output)
    chosen = _chosen(runtime, jobs or [], group, everything)
    runtime.interrupted = lambda: detached(chosen)
    from tao_run.cli.watching import watch_jobs

    seconds = None if timeout is None else parse_duration(timeout)
    leave(watch_jobs(runtime, chosen, interval * 60.0, seconds, on_change))


def _chosen(runtime: Runtime, names: list[str], group: str | None, everything: bool) -> list[Job]:
    from tao_run.jobs.retry import latest_attempt

    chosen = [runtime.store.resolve(name) for name in names]
    chosen += runtime.store.in_group(group) if group else []
    chosen += runtime.store.live() if everything else []
    if not chosen and not everything:
        raise UsageError("no job given", "name jobs, --group GROUP or --all")
    latest = (latest_attempt(runtime.store, job) for job in chosen)
    return list({job.id: job for job in latest}.values())
