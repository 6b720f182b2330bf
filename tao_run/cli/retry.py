"""`tao-run retry`: submits again what failed, and only that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tao_run.cli.arguments import GroupOption, JobsArgument
from tao_run.cli.outcomes import Submitted
from tao_run.cli.rows import job_row
from tao_run.cli.runtime import FormatOption, Runtime, leave, runtime_of
from tao_run.errors import UsageError

if TYPE_CHECKING:
    from tao_run.jobs.model import Job
    from tao_run.jobs.request import JobRequest
    from tao_run.platforms.base import Platform

app = typer.Typer(add_completion=False)


@app.command()
def retry(
    ctx: typer.Context,
    jobs: JobsArgument = None,
    group: GroupOption = None,
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
    again = [_retry_one(runtime, name, force, resume) for name in jobs or []]
    if group:
        again += _retry_group(runtime, group, force, resume)
    _show(runtime, again)
    if watch:
        from tao_run.cli.watching import watch_jobs

        leave(watch_jobs(runtime, again, interval * 60.0))


def _retry_one(runtime: Runtime, name: str, force: bool, resume: bool) -> Job:
    from tao_run.jobs.retry import retry_latest

    job = runtime.store.resolve(name)
    return retry_latest(runtime.platform_of(job), runtime.store, job, force=force, resume=resume)


def _retry_group(runtime: Runtime, group: str, force: bool, resume: bool) -> list[Job]:
    from tao_run.jobs.retry import retry_group

    def platform_of(one: Job | JobRequest) -> Platform:
        return runtime.platform(str(one.platform))

    return retry_group(platform_of, runtime.store, group, runtime.output.note, force=force, resume=resume)


def _show(runtime: Runtime, again: list[Job]) -> None:
    if runtime.output.json:
        runtime.output.emit(Submitted(tuple(job_row(job, runtime.clock.now()) for job in again)))
        return
    for job in again:
        runtime.output.line(job.id)
    if not again:
        runtime.output.note("nothing to retry")
