"""Text views of instances."""

from __future__ import annotations

from tao_run.cli.instances import Deleted, InstanceList, InstanceRow
from tao_run.cli.output import Output
from tao_run.cli.output.plain import plain_line
from tao_run.cli.output.views import table, view
from tao_run.jobs.durations import short_duration


@view(InstanceList)
def instance_list(result: InstanceList, output: Output) -> None:
    """A table of instances; what is left over is said below it."""
    if not result.instances:
        output.note("there are no instances")
        return
    columns = ("NAME", "STATUS", "TYPE", "GPU", "JOB", "STATE", "AGE")
    table(output, columns, [_cells(row) for row in result.instances], keep=("NAME", "JOB"))
    for line in result.leftovers:
        output.note(line)


def _cells(row: InstanceRow) -> tuple[str, ...]:
    age = "" if row.age_seconds is None else short_duration(row.age_seconds)
    return (row.name, row.status, row.type, row.gpu, row.job, row.state, age)


@view(Deleted)
def deleted(result: Deleted, output: Output) -> None:
    """One line per instance."""
    for name in result.deleted:
        output.line(plain_line(f"deleted {name}"))
