"""`tao-run cancel`: stop jobs and say what was seen afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tao_run.cli.arguments import GroupOption, JobsArgument
from tao_run.cli.asking import agree
from tao_run.cli.outcomes import CancelList, CancelOutcome
from tao_run.cli.output import fault_data
from tao_run.cli.rows import job_row
from tao_run.cli.runtime import FormatOption, Runtime, leave, runtime_of
from tao_run.errors import TaoRunError, UsageError

if TYPE_CHECKING:
    from tao_run.jobs.model import Job

app = typer.Typer(add_completion=False)


@app.command()
def cancel(
    ctx: typer.Context,
    jobs: JobsArgument = None,
    group: GroupOption = None,
    delete: Annotated[bool, typer.Option("--delete", help="Also remove the job, its logs included.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = None,
) -> None:
    """Stop jobs and verify that they stopped. The record, the logs and the analysis stay.

    Example: tao-run cancel @last --yes
    """
    runtime = runtime_of(ctx, output)
    chosen = [runtime.store.resolve(name) for name in jobs or []] + (runtime.store.in_group(group) if group else [])
    if not chosen:
        raise UsageError("no job given", "name jobs, or --group GROUP")
    _confirm(runtime, chosen, delete, yes)
    ended, faults = _cancel_all(runtime, chosen, delete)
    now = runtime.clock.now()
    outcomes = tuple(CancelOutcome(job_row(job, now), job.status.state.terminal) for job in ended)
    runtime.output.emit(CancelList(outcomes, tuple(map(fault_data, faults))))
    for error in faults:
        runtime.output.fault(error)
    if any(not outcome.stopped for outcome in outcomes):
        leave(6)
    leave(max((error.exit_code for error in faults), default=0))


def _confirm(runtime: Runtime, jobs: list[Job], delete: bool, yes: bool) -> None:
    if yes or not runtime.can_ask():
        return
    verb = "cancel and delete" if delete else "cancel"
    if not agree(runtime, f"{verb} {', '.join(job.name for job in jobs)}?", default=False):
        raise UsageError("nothing was cancelled", "answer y, or give --yes")


def _cancel_all(runtime: Runtime, jobs: list[Job], delete: bool) -> tuple[list[Job], list[TaoRunError]]:
    from tao_run.platforms.lifecycle import cancel as cancel_job

    ended: list[Job] = []
    faults: list[TaoRunError] = []
    for job in jobs:
        try:
            platform = runtime.platform_of(job)
            after = cancel_job(platform, runtime.store, job, delete)
            if after.status.state.terminal:
                for note in platform.settle(after):
                    runtime.output.note(note)
            ended.append(after)
        except TaoRunError as error:
            faults.append(error)
    return ended, faults
