"""What squeue and sacct print, as rows: the columns asked for, and the parsers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone

# Asked for with SLURM_TIME_FORMAT=%s: seconds since 1970, so that no time zone of the cluster matters.
SQUEUE_FIELDS = (
    "JobID",
    "Name",
    "State",
    "exit_code",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "RestartCnt",
    "NodeList",
    "Partition",
    "Reason",
)
SQUEUE_FORMAT = ",".join(f"{field}:|" for field in SQUEUE_FIELDS)
SACCT_FIELDS = (
    "JobID",
    "JobName",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "NodeList",
    "Partition",
    "Reason",
)
SACCT_FORMAT = ",".join(SACCT_FIELDS)


@dataclass(frozen=True)
class Row:
    """One job as squeue or sacct shows it. `exit_code` and `signal` are of the batch script, None while unknown."""

    job_id: str
    name: str
    state: str
    exit_code: int | None = None
    signal: int | None = None
    submitted: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    restarts: int = 0
    nodes: str = ""
    partition: str = ""
    reason: str = ""


def parse_squeue(lines: Iterable[str]) -> list[Row]:
    """Rows of `squeue -h -O SQUEUE_FORMAT`. Lines with another number of columns are not rows and are left out."""
    return [
        _row(line.split("|", len(SQUEUE_FIELDS) - 1)) for line in lines if line.count("|") >= len(SQUEUE_FIELDS) - 1
    ]


def parse_sacct(lines: Iterable[str]) -> list[Row]:
    """Rows of `sacct -X -n -P --format=SACCT_FORMAT`; step rows (`12.batch`) are left out: the job row decides."""
    rows = []
    for line in lines:
        cells = line.split("|")
        if len(cells) == len(SACCT_FIELDS) and "." not in cells[0]:
            rows.append(_row([*cells[:7], "", *cells[7:]]))  # sacct before 23.02 has no count of restarts
    return rows


def _row(cells: list[str]) -> Row:
    job_id, name, state, exit_text, submit, start, end, restarts, nodes, partition, reason = (
        cell.strip() for cell in cells
    )
    code, signal = exit_status(exit_text)
    return Row(
        job_id=job_id,
        name=name,
        state=state,
        exit_code=code,
        signal=signal,
        submitted=moment(submit),
        started=moment(start),
        ended=moment(end),
        restarts=int(restarts) if restarts.isdecimal() else 0,
        nodes=nodes,
        partition=partition,
        reason=reason.strip("|"),
    )


def exit_status(text: str) -> tuple[int | None, int | None]:
    """Exit code and signal of `3:0` (sacct), or of the raw wait status that squeue prints (`768`, `9`)."""
    code, colon, signal = text.partition(":")
    if colon and code.isdecimal() and signal.isdecimal():
        return int(code), int(signal) or None
    if not code.isdecimal():
        return None, None
    signal_number = int(code) & 0x7F
    return (0, signal_number) if signal_number else (int(code) >> 8 & 0xFF, None)


def moment(text: str) -> datetime | None:
    """The time of a `%s` column; None for `Unknown`, `N/A` and zero."""
    return datetime.fromtimestamp(int(text), timezone.utc) if text.isdecimal() and int(text) else None
