"""`tao-run analyze`: why a job failed, and what to do."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from tao_run.analysis.result import Report
from tao_run.cli.arguments import MaybeJobArgument
from tao_run.cli.runtime import FormatOption, Runtime, runtime_of
from tao_run.errors import UsageError
from tao_run.jobs.model import LogQuery

app = typer.Typer(add_completion=False)


@app.command()
def analyze(
    ctx: typer.Context,
    job: MaybeJobArgument = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="FILE", help="A saved log instead of a job; .gz, or - for stdin.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Read the whole log of the job, not only its end.")] = False,
    output: FormatOption = None,
) -> None:
    """Say why a job failed or waits: cause, first failing rank, evidence, what to do, whether a retry helps.

    Works without any backend on a saved log. Example: tao-run analyze @last
    """
    runtime = runtime_of(ctx, output)
    if (job is None) == (log is None):
        raise UsageError("give a job, or a saved log with --log FILE", "for instance `tao-run analyze @last`")
    report = _of_job(runtime, str(job), full) if log is None else _of_log(log)
    runtime.output.emit(report)


def _of_job(runtime: Runtime, name: str, full: bool) -> Report:
    from tao_run.analysis import analyze
    from tao_run.jobs.evidence import evidence_of

    job = runtime.store.resolve(name)
    platform = runtime.platform_of(job)
    evidence = evidence_of(platform, job, runtime.clock.now())
    lines = platform.logs(job, LogQuery()) if full and job.backend_id else None
    return Report(job.id, evidence.status.state.value, analyze(evidence, lines))


def _of_log(name: str) -> Report:
    from tao_run.analysis import analyze_log

    try:
        with _open(name) as stream:
            return Report(name, "", analyze_log(stream))
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror or error}") from None


@contextmanager
def _open(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
    elif name.endswith(".gz"):
        with gzip.open(name) as packed:
            yield cast("BinaryIO", packed)
    else:
        with Path(name).open("rb") as stream:
            yield stream
