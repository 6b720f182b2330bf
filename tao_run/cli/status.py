"""`tao-run status`: what is known of jobs now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tao_run.cli.arguments import GroupOption, JobsArgument
from tao_run.cli.output import fault_data
from tao_run.cli.rows import StatusList, job_row
from tao_run.cli.runtime import FormatOption, Runtime, leave, runtime_of
from tao_run.jobs.observe import Sweep, refresh

if TYPE_CHECKING:
    from tao_run.jobs.model import Job

app = typer.Typer(add_completion=False)


@app.command()
def status(
    ctx: typer.Context,
    jobs: JobsArgument = None,
    everything: Annotated[bool, typer.Option("--all", help="All recorded jobs, not only the recent ones.")] = False,
    group: GroupOption = None,
    cached: Annotated[bool, typer.Option("--cached/--refresh", help="Show the record; ask no backend.")] = False,
    output: FormatOption = None,
) -> None:
    """Show what is known of jobs: state, reason, age, results directory.

    Example: tao-run status @last
    """
    runtime = runtime_of(ctx, output)
    chosen = _chosen(runtime, jobs or [], everything, group)
    sweep = Sweep(tuple(chosen), {}) if cached else refresh(chosen, runtime.platform_of, runtime.store)
    now = runtime.clock.now()
    left = () if cached else _leftovers(runtime, sweep)
    faults = list(sweep.faults.values())
    rows = tuple(job_row(job, now) for job in sweep.jobs)
    runtime.output.emit(StatusList(rows, left, tuple(map(fault_data, faults))))
    for error in faults:
        runtime.output.fault(error)
    leave(max((error.exit_code for error in faults), default=0))


def _chosen(runtime: Runtime, names: Sequence[str], everything: bool, group: str | None) -> list[Job]:
    if group:
        return runtime.store.in_group(group)
    if names:
        return [runtime.store.resolve(name) for name in names]
    return runtime.store.recent(None if everything else 20)


def _leftovers(runtime: Runtime, sweep: Sweep) -> tuple[str, ...]:
    """What is left on the backends of these jobs and costs money."""
    platforms = {job.platform for job in sweep.jobs} - {account[0] for account in sweep.faults}
    return tuple(line for name in sorted(platforms) for line in runtime.platform(name).leftovers())
