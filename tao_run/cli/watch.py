"""`tao-run watch`: jobs until they have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tao_run.cli.rows import job_row
from tao_run.cli.runtime import FormatOption, Runtime, leave, runtime_of
from tao_run.errors import UsageError
from tao_run.jobs.durations import parse_duration
from tao_run.jobs.model import JobState
from tao_run.jobs.observe import refresh
from tao_run.jobs.watch import watch as watch_sweeps

if TYPE_CHECKING:
    from tao_run.jobs.model import Job

app = typer.Typer(add_completion=False)


@app.command()
def watch(
    ctx: typer.Context,
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Ids, prefixes, names or @last.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="All jobs of a group.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All jobs that have not ended.")] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.001, help="Minutes between looks.")] = 5.0,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Leave after this long: 30m, 4h.")] = None,
    output: FormatOption = None,
) -> None:
    """Watch jobs until all have ended; the exit code tells the outcome. Ctrl-C detaches, the jobs go on.

    Example: tao-run watch @last
    """
    runtime = runtime_of(ctx, output)
    chosen = [runtime.store.resolve(name) for name in jobs or []]
    chosen += runtime.store.in_group(group) if group else []
    chosen += runtime.store.live() if everything else []
    if not chosen and not everything:
        raise UsageError("no job given", "name jobs, --group GROUP or --all")
    leave(watch_jobs(runtime, chosen, interval * 60.0, None if timeout is None else parse_duration(timeout)))


def watch_jobs(runtime: Runtime, jobs: list[Job], interval: float, timeout: float | None = None) -> int:
    """Show jobs until they have ended and return the exit code."""
    current = list(jobs)
    shown: dict[str, tuple[str, ...]] = {}

    def look() -> object:
        return refresh(current, runtime.platform_of, runtime.store)

    for sweep in watch_sweeps(look, runtime.clock, interval, timeout):  # type: ignore[arg-type]
        current[:] = sweep.jobs
        now = runtime.clock.now()
        for job in current:
            line = (job.status.state.value, job.status.reason, str(job.status.reachable))
            if shown.get(job.id) != line:
                shown[job.id] = line
                row = job_row(job, now)
                if runtime.output.json:
                    runtime.output.json_line(row)
                else:
                    runtime.output.line(f"{row.id} {row.name} {row.state} {row.reason} {row.message}".rstrip())
                _settle(runtime, job)
    return outcome([job.status.state for job in current])


def _settle(runtime: Runtime, job: Job) -> None:
    """Let go of what an ended job held: `status` only looks, this is where a rented instance is given back."""
    if job.status.state.terminal:
        for note in runtime.platform_of(job).settle(job):
            runtime.output.note(note)


def outcome(states: list[JobState]) -> int:
    """The exit code of a set of jobs: 1 if any failed, 7 if any was canceled, 124 if any goes on, else 0."""
    if JobState.ERROR in states:
        return 1
    if JobState.CANCELED in states:
        return 7
    return 0 if all(state.terminal for state in states) else 124
