"""Text views of the job commands."""

from __future__ import annotations

import json

from tao_run.cli.output import Output
from tao_run.cli.output.plain import plain
from tao_run.cli.output.views import table, view
from tao_run.cli.rows import (
    CancelList,
    DryRun,
    InitReport,
    JobRow,
    ReplicaList,
    ReplicaRow,
    ResourceList,
    ResultList,
    StatusList,
)
from tao_run.jobs.durations import short_duration


@view(StatusList)
def status_list(result: StatusList, output: Output) -> None:
    """A table of jobs, or one job in full."""
    if not result.jobs:
        output.note("no jobs are recorded here; `tao-run submit` starts one")
    elif len(result.jobs) == 1:
        _one_job(result.jobs[0], output)
    else:
        columns = ("ID", "NAME", "PLATFORM", "STATE", "REASON", "READY", "AGE", "RESULTS")
        table(output, columns, [_status_cells(row) for row in result.jobs], keep=("ID", "STATE"))
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


@view(ReplicaList)
def replica_list(result: ReplicaList, output: Output) -> None:
    """A table of replicas with what an issue means."""
    columns = ("RANK", "REPLICA", "NODE", "NODE GROUP", "CPU", "MEMORY MB", "PHASE", "EXIT", "ISSUE", "MEANING")
    table(output, columns, [_replica_cells(row) for row in result.replicas], keep=("REPLICA", "NODE"))


def _replica_cells(row: ReplicaRow) -> tuple[str, ...]:
    replica = row.replica
    issue = ": ".join(part for part in (replica.issue_reason, replica.issue_message) if part)
    numbers = [replica.rank, replica.cpu, replica.memory_mb, replica.exit_code]
    rank, cpu, memory, code = ("" if number is None else f"{number:g}" for number in numbers)
    return (
        rank,
        replica.name,
        replica.node,
        replica.node_group,
        cpu,
        memory,
        replica.phase,
        code,
        issue,
        row.meaning,
    )


@view(DryRun)
def dry_run(result: DryRun, output: Output) -> None:
    """The native object: a script as it is, data as JSON; secrets as references."""
    if isinstance(result.native, str):
        output.line(result.native.rstrip("\n"))
    else:
        output.line(json.dumps(result.native, indent=2, ensure_ascii=False, default=str))
    if result.secrets:
        pairs = ", ".join(f"{name} <- {source}" for name, source in sorted(result.secrets.items()))
        output.note(f"secrets by reference: {pairs}")


@view(CancelList)
def cancel_list(result: CancelList, output: Output) -> None:
    """One line per job: what was seen after the cancel."""
    for outcome in result.jobs:
        row = outcome.job
        if outcome.stopped:
            output.line(f"{row.id} {row.name}: {row.state}")
        else:
            output.line(f"{row.id} {row.name}: STILL {row.state}: the backend was told to stop it and it has not yet")
            output.note(f"  do: check again with `tao-run status {row.id}`; until it stops it may cost money")


@view(ResourceList)
def resource_list(result: ResourceList, output: Output) -> None:
    """One table for each kind of resource."""
    if not result.tables:
        output.note(f"platform {result.platform} has nothing to list")
    for resources in result.tables:
        output.line(f"{resources.title}:")
        if resources.rows:
            table(output, [column.upper() for column in resources.columns], resources.rows, keep=())
        else:
            output.line("  none")


@view(InitReport)
def init_report(result: InitReport, output: Output) -> None:
    """Where the file is and what is set: names only."""
    output.line(f"{'wrote' if result.written else 'kept'} {result.path}")
    output.line("set:     " + (", ".join(result.present) or "nothing"))
    output.line("not set: " + (", ".join(result.missing) or "nothing"))


@view(ResultList)
def result_list(result: ResultList, output: Output) -> None:
    """The place, or with --list every file with its size."""
    output.line(plain(result.results_dir))
    for entry in result.files or ():
        size = "" if entry.size is None else str(entry.size)
        output.line(f"{size:>14}  {plain(entry.path)}")
