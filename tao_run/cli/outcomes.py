"""Typed results of the job commands but `status`: what is rendered as text or JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tao_run.cli.rows import JobRow
from tao_run.jobs.checkpoints import Checkpoint
from tao_run.jobs.model import Replica, ResourceTable


@dataclass(frozen=True)
class ReplicaRow:
    """A replica, and in words what its readiness issue means."""

    replica: Replica
    meaning: str = ""


@dataclass(frozen=True)
class ReplicaList:
    """Result of `replicas`."""

    job: str
    replicas: tuple[ReplicaRow, ...]


@dataclass(frozen=True)
class Submitted:
    """Result of `submit --detach` as JSON: what was submitted."""

    jobs: tuple[JobRow, ...]


@dataclass(frozen=True)
class DryRun:
    """Result of `submit --dry-run`: the native object, exactly as it would be sent."""

    platform: str
    native: Any
    secrets: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CancelOutcome:
    """What became of one job that was to be cancelled."""

    job: JobRow
    stopped: bool


@dataclass(frozen=True)
class CancelList:
    """Result of `cancel`. `errors`: why some jobs could not be cancelled."""

    jobs: tuple[CancelOutcome, ...]
    errors: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class ResourceList:
    """Result of `resources`."""

    platform: str
    tables: tuple[ResourceTable, ...]


@dataclass(frozen=True)
class InitReport:
    """Result of `init`: the file, whether it was written now, and what is set (presence only)."""

    path: str
    written: bool
    present: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class ResultEntry:
    """One file below a results directory; `size` in bytes."""

    path: str
    size: int | None = None


@dataclass(frozen=True)
class ResultList:
    """Result of `results`: where they are, and with --list what is there."""

    job: str
    results_dir: str
    files: tuple[ResultEntry, ...] | None = None
    downloaded_to: str | None = None


@dataclass(frozen=True)
class CheckpointList:
    """Result of `results --checkpoints`: what one can resume from, the furthest last."""

    job: str
    results_dir: str
    checkpoints: tuple[Checkpoint, ...]
