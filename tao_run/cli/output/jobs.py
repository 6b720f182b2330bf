"""Text views of the job commands."""

from __future__ import annotations

import json

from tao_run.cli.outcomes import (
    CancelList,
    CheckpointList,
    DryRun,
    InitReport,
    ReplicaList,
    ReplicaRow,
    ResourceList,
    ResultList,
)
from tao_run.cli.output import Output
from tao_run.cli.output.plain import plain
from tao_run.cli.output.views import table, view


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


@view(CheckpointList)
def checkpoint_list(result: CheckpointList, output: Output) -> None:
    """A table of checkpoints, the furthest last."""
    if not result.checkpoints:
        output.note(f"no checkpoints in {result.results_dir}")
        return
    rows = []
    for item in result.checkpoints:
        numbers = ("" if number is None else str(number) for number in (item.epoch, item.step, item.size))
        metric = "" if item.value is None else f"{item.metric}={item.value:g}"
        epoch, step, size = numbers
        rows.append((epoch, step, metric, size, item.path))
    table(output, ("EPOCH", "STEP", "METRIC", "BYTES", "CHECKPOINT"), rows, keep=("CHECKPOINT",))
