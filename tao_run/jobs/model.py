"""The words of the house: job, state, status, replica, log line, check, evidence, analysis. Pure data."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest


class JobState(str, Enum):
    """What is known of a job. Complete, Error and Canceled never change again."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETE = "Complete"
    ERROR = "Error"
    CANCELED = "Canceled"
    PAUSED = "Paused"
    UNKNOWN = "Unknown"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended."""
        return self in (JobState.COMPLETE, JobState.ERROR, JobState.CANCELED)

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class JobStatus:
    """One observation of a job.

    `reachable` False means: the backend did not answer, and this is the last state seen, at `observed_at`.
    `ready` and `total` count replicas. `native_state` is the backend's own word.
    """

    state: JobState
    reason: str = ""
    message: str = ""
    native_state: str = ""
    exit_code: int | None = None
    observed_at: datetime | None = None
    reachable: bool = True
    ready: int | None = None
    total: int | None = None

    @property
    def status(self) -> str:
        """The state as a plain word (`Pending`, `Running`, ...), as SDK users know it."""
        return self.state.value


@dataclass(frozen=True)
class Job:
    """Our record of a job. `spec` is the request as plain data; `request` parses it when needed.

    `account` says where on the platform it lives (workspace, host, context), so that it is found again
    whatever the environment says later. `backend_id` is None until the backend has confirmed the launch.
    """

    id: str
    name: str
    platform: str
    account: str
    spec: Mapping[str, Any]
    created_at: datetime
    backend_id: str | None = None
    results_dir: str = ""
    group: str | None = None
    split_id: str | None = None
    retry_of: str | None = None
    status: JobStatus = JobStatus(JobState.PENDING)

    @cached_property
    def request(self) -> JobRequest:
        """The request this job was made from."""
        from tao_run.jobs.request import JobRequest

        return JobRequest.model_validate(dict(self.spec))

    @property
    def options(self) -> Mapping[str, Any]:
        """The platform's own options, as recorded."""
        return dict((self.spec.get("options") or {}).get(self.platform) or {})

    @property
    def nodes(self) -> int:
        """How many nodes (ranks) the job has."""
        return int(self.spec.get("nodes") or 1)


@dataclass(frozen=True)
class Replica:
    """One worker of a job. `issue_reason` and `issue_message` say why it is not ready, if it is not."""

    rank: int | None
    name: str
    node: str = ""
    node_group: str = ""
    cpu: float | None = None
    memory_mb: int | None = None
    phase: str = ""
    ready: bool | None = None
    exit_code: int | None = None
    issue_reason: str = ""
    issue_message: str = ""


@dataclass(frozen=True)
class LogLine:
    """One line of a job's log, without its newline. A `gap` says that lines are known to be missing."""

    text: str
    time: datetime | None = None
    rank: int | None = None
    replica: str = ""
    kind: Literal["line", "gap", "note"] = "line"


@dataclass(frozen=True)
class LogQuery:
    """Which lines: the last `tail` in all, from `since` on, of one `replica` (rank or name), followed or not."""

    tail: int | None = None
    follow: bool = False
    replica: str | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class Check:
    """One launch check: what was looked at, how it went, and what to do."""

    id: str
    status: Literal["ok", "failed", "skipped"]
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class NodeEvent:
    """Something that the backend saw happen around a job (OOM kill, failed scheduling, eviction)."""

    name: str
    message: str
    node: str = ""
    time: datetime | None = None
    warning: bool = True
    count: int = 1


@dataclass(frozen=True)
class Evidence:
    """All that a backend knows of how a job went, for analysis.

    `native` is the backend's own analysis if it has one. `facts` are adapter facts as text
    (for instance `pending_minutes`, `partition`).
    """

    status: JobStatus
    replicas: tuple[Replica, ...] = ()
    events: tuple[NodeEvent, ...] = ()
    log_tail: tuple[LogLine, ...] = ()
    native: Mapping[str, Any] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceTable:
    """What can be asked for on a platform: one titled table, its rows as plain data."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


_NAME_UNSAFE = re.compile(r"[^a-z0-9]+")
ID_LENGTH = 16


def new_id() -> str:
    """A new job id: 16 hexadecimal digits, unique without asking anybody."""
    return os.urandom(ID_LENGTH // 2).hex()


def job_name(wanted: str, job_id: str, limit: int = 36) -> str:
    """`<slug>-<id>`: a name that every backend accepts and by which the job is found again.

    At most `limit` characters (Lepton takes 36, Kubernetes 63), `[a-z][a-z0-9-]*`, no hyphen at the end.
    """
    slug = _NAME_UNSAFE.sub("-", wanted.lower()).strip("-") or "tao"
    if not slug[0].isalpha():
        slug = "t-" + slug
    return f"{slug[: limit - len(job_id) - 1].rstrip('-')}-{job_id}"
