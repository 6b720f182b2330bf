"""Text view of `status`."""

from __future__ import annotations

from tao_run.cli.output import Output
from tao_run.cli.output.plain import plain
from tao_run.cli.output.views import table, view
from tao_run.cli.rows import JobRow, StatusList
from tao_run.jobs.durations import short_duration

# what one job's own status shows as well
_SPARE = ("RESULTS", "PLATFORM", "READY", "REASON")


@view(StatusList)
def status_list(result: StatusList, output: Output) -> None:
    """A table of jobs, or one job in full."""
    if not result.jobs:
        output.note("no jobs are recorded here; `tao-run submit` starts one")
    elif len(result.jobs) == 1:
        _one_job(result.jobs[0], output)
    else:
        columns = ("ID", "NAME", "PLATFORM", "STATE", "REASON", "READY", "AGE", "RESULTS")
        table(output, columns, [_status_cells(row) for row in result.jobs], keep=("ID", "STATE"), spare=_SPARE)
    for note in result.notes:
        output.note(note)


def state_cell(row: JobRow) -> str:
    """The state, and if the backend did not answer, how old it is."""
    if row.reachable:
        return row.state
    age = "never seen" if row.seen_seconds is None else f"{short_duration(row.seen_seconds)} ago"
    return f"{row.state} (stale, {age})"


def ready_cell(row: JobRow) -> str:
    """Ready of total replicas."""
    return "" if row.ready is None or row.total is None else f"{row.ready}/{row.total}"


def _status_cells(row: JobRow) -> tuple[str, ...]:
    age = short_duration(row.age_seconds)
    return (row.id, row.name, row.platform, state_cell(row), row.reason, ready_cell(row), age, row.results_dir)


def _one_job(row: JobRow, output: Output) -> None:
    exit_code = "" if row.exit_code is None else str(row.exit_code)
    pairs = [
        ("job", row.id),
        ("name", row.name),
        ("platform", f"{row.platform} ({row.account})"),
        ("state", state_cell(row)),
        ("reason", row.reason),
        ("message", row.message),
        ("native state", row.native_state),
        ("exit code", exit_code),
        ("replicas ready", ready_cell(row)),
        ("age", short_duration(row.age_seconds)),
        ("backend id", row.backend_id or ""),
        ("group", row.group or ""),
        ("split", row.split_id or ""),
        ("retry of", row.retry_of or ""),
        ("results", row.results_dir),
    ]
    for label, value in pairs:
        if value:
            output.line(f"{label + ':':<16}{plain(value)}")
