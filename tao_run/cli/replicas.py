"""`tao-run replicas`: the workers of a job."""

from __future__ import annotations

import typer

from tao_run.cli.arguments import JobArgument
from tao_run.cli.outcomes import ReplicaList, ReplicaRow
from tao_run.cli.runtime import FormatOption, runtime_of
from tao_run.jobs.readiness import meaning_of

app = typer.Typer(add_completion=False)


@app.command()
def replicas(
    ctx: typer.Context,
    job: JobArgument,
    output: FormatOption = None,
) -> None:
    """Show rank, node, node group, cpu, memory and readiness of the workers of a job, and what an issue means.

    Example: tao-run replicas @last
    """
    runtime = runtime_of(ctx, output)
    found = runtime.store.resolve(job)
    workers = runtime.platform_of(found).replicas(found)
    rows = tuple(ReplicaRow(worker, meaning_of(worker.issue_reason, worker.issue_message)) for worker in workers)
    runtime.output.emit(ReplicaList(found.id, rows))
