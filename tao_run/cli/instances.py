"""`tao-run instances`: the GPU instances of Brev, and deleting them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tao_run.cli.asking import agree
from tao_run.cli.runtime import FormatOption, Runtime, runtime_of
from tao_run.errors import UsageError

if TYPE_CHECKING:
    from tao_run.platforms.brev import BrevSDK

app = typer.Typer(add_completion=False, no_args_is_help=True, help="List or delete GPU instances (Brev).")


@dataclass(frozen=True)
class InstanceRow:
    """One instance. `age_seconds` is known only for one that was rented for a recorded job."""

    name: str
    id: str
    status: str
    type: str
    gpu: str
    rented: bool
    job: str
    state: str
    live_jobs: tuple[str, ...]
    age_seconds: int | None


@dataclass(frozen=True)
class InstanceList:
    """Result of `instances list`; `leftovers` names those that cost money for no running job."""

    instances: tuple[InstanceRow, ...]
    leftovers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Deleted:
    """Result of `instances delete`."""

    deleted: tuple[str, ...]


@app.command("list")
def list_all(ctx: typer.Context, output: FormatOption = None) -> None:
    """Show the instances of the active organization, the job of each and its age.

    Example: tao-run instances list
    """
    runtime = runtime_of(ctx, output)
    brev = _brev(runtime)
    rows = tuple(_row(item) for item in brev.list_instances())
    runtime.output.emit(InstanceList(rows, tuple(brev.leftovers()) if rows else ()))


@app.command()
def delete(
    ctx: typer.Context,
    instances: Annotated[list[str], typer.Argument(metavar="ID...", help="Names or ids of instances.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; also when jobs run there.")] = False,
    output: FormatOption = None,
) -> None:
    """Delete instances and see them go. The logs of jobs that ended there are kept on this machine first.

    Example: tao-run instances delete train-0123456789abcdef --yes
    """
    runtime = runtime_of(ctx, output)
    brev = _brev(runtime)
    known = {name: row for row in map(_row, brev.list_instances()) for name in (row.name, row.id)}
    for name in instances:
        if name not in known:
            raise UsageError(f"there is no instance {name}", "`tao-run instances list` shows what there is")
        _confirm(runtime, known[name], yes)
    deleted = tuple(known[name].name for name in dict.fromkeys(instances) if brev.delete_instance(name))
    runtime.output.emit(Deleted(deleted))


def _confirm(runtime: Runtime, row: InstanceRow, yes: bool) -> None:
    if yes:
        return
    if runtime.can_ask():
        jobs = f", where {', '.join(row.live_jobs)} runs," if row.live_jobs else ""
        if not agree(runtime, f"delete {row.name} ({row.type}){jobs} and everything on it?", default=False):
            raise UsageError("nothing was deleted", "answer y, or give --yes")
    elif row.live_jobs:
        raise UsageError(f"job {', '.join(row.live_jobs)} runs on {row.name}", "cancel it first, or add --yes")


def _brev(runtime: Runtime) -> BrevSDK:
    return cast("BrevSDK", runtime.platform("brev"))


def _row(item: dict[str, Any]) -> InstanceRow:
    same = {key: item[key] for key in ("name", "id", "status", "type", "gpu", "rented", "job", "state")}
    return InstanceRow(**same, live_jobs=tuple(item["live_jobs"]), age_seconds=item["age"])
