"""`tao-run retry`: submits again what failed, and only that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tao_run.cli.outcomes import Submitted
from tao_run.cli.rows import job_row
from tao_run.cli.runtime import FormatOption, Runtime, leave, runtime_of
from tao_run.errors import TaoRunError, UsageError
from tao_run.jobs.model import JobState

if TYPE_CHECKING:
    from tao_run.jobs.model import Job

app = typer.Typer(add_completion=False)


@app.command()
def retry(
    ctx: typer.Context,
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Ids, prefixes, names or @last.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="What failed in a group, and what it lacks.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also what would fail again, or was canceled.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Start from the furthest checkpoint.")] = False,
    watch: Annotated[bool, typer.Option("--watch/--detach", help="Watch, or print ids and leave.")] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.001, help="Minutes between looks.")] = 5.0,
    output: FormatOption = None,
) -> None:
    """Submit failed jobs again, with the same split ids, linked to the jobs they repeat.

    Refuses jobs whose own program or settings are at fault. Example: tao-run retry --group sweep
    """
    runtime = runtime_of(ctx, output)
    if not jobs and not group:
        raise UsageError("no job given", "name jobs, or --group GROUP")
    again = [_retry_one(runtime, runtime.store.resolve(name), force, resume) for name in jobs or []]
    if group:
        again += _retry_group(runtime, group, force, resume)
    _show(runtime, again)
    if watch:
        from tao_run.cli.watching import watch_jobs

        leave(watch_jobs(runtime, again, interval * 60.0))


def _retry_one(runtime: Runtime, job: Job, force: bool, resume: bool) -> Job:
    """One job, named by the user: what cannot be retried is an error."""
    from tao_run.jobs.retry import analysis_of, check_worth, latest_attempt, retry

    latest = latest_attempt(runtime.store, job)
    if latest.id != job.id:
        runtime.output.note(f"{job.name} was retried before; its latest attempt is {latest.name}")
    latest = _seen_now(runtime, latest)
    platform = runtime.platform_of(latest)
    if not latest.status.state.terminal or latest.status.state is JobState.COMPLETE:
        check_worth(latest, None)
    analysis = None if force else analysis_of(platform, latest, runtime.clock.now())
    if not force:
        check_worth(latest, analysis)
    return retry(platform, runtime.store, latest, analysis, resume)


def _seen_now(runtime: Runtime, job: Job) -> Job:
    from tao_run.jobs.observe import refresh

    sweep = refresh([job], runtime.platform_of, runtime.store)
    for error in sweep.faults.values():
        raise error
    return sweep.jobs[0]


def _retry_group(runtime: Runtime, group: str, force: bool, resume: bool) -> list[Job]:
    """What failed in a group and what was never submitted; the rest is left alone."""
    from tao_run.jobs.retry import latest_attempt
    from tao_run.jobs.splits import missing_members, submit_members

    group_id, missing = missing_members(runtime.store, group)
    again: list[Job] = []
    latest = {
        found.id: found for job in runtime.store.in_group(group) for found in [latest_attempt(runtime.store, job)]
    }
    for job in latest.values():
        try:
            again.append(_retry_one(runtime, job, force, resume))
        except UsageError as error:
            if _worth_saying(runtime, job):
                runtime.output.note(error.message)
        except TaoRunError as error:
            runtime.output.note(f"{job.name} is not retried: {error.message}")
    if missing:
        runtime.output.note(f"{len(missing)} members of the group were never submitted; they are now")
        again += submit_members(runtime.platform(str(missing[0].platform)), runtime.store, group_id, missing)
    return again


def _worth_saying(runtime: Runtime, job: Job) -> bool:
    return runtime.store.get(job.id).status.state in (JobState.ERROR, JobState.CANCELED)


def _show(runtime: Runtime, again: list[Job]) -> None:
    if runtime.output.json:
        runtime.output.emit(Submitted(tuple(job_row(job, runtime.clock.now()) for job in again)))
        return
    for job in again:
        runtime.output.line(job.id)
    if not again:
        runtime.output.note("nothing to retry")
