"""Replicas of a Lepton job: their documents read, and what a readiness issue means in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tao_run.jobs.model import Replica
from tao_run.platforms.lepton.documents import amount, number, part, word
from tao_run.platforms.lepton.faults import plain

_RANK = re.compile(r"-(\d+)-[a-z0-9]+$")
_READY = ("", "Ready")


def read_replicas(rows: Iterable[Mapping[str, Any]]) -> list[Replica]:
    """Replicas by rank; rows without an id are kept, without a name."""
    found = [read_replica(row) for row in rows]
    return sorted(found, key=lambda item: (item.rank is None, item.rank or 0, item.name))


def read_replica(row: Mapping[str, Any]) -> Replica:
    """One replica. The issue may be an object, a list of objects (the worst is last), or absent."""
    status = part(row, "status")
    node = part(status, "node")
    name = word(part(row, "metadata").get("id")) or word(row.get("id"))
    reason, message = readiness_issue(status.get("readiness_issue"))
    return Replica(
        rank=rank_of(name),
        name=name,
        node=plain(word(node.get("name")) or word(node.get("id"))),
        node_group=plain(word(node.get("node_group_id"))),
        cpu=amount(status.get("cpu")) or None,
        memory_mb=number(status.get("memory_in_mb")) or None,
        phase=reason or ("Running" if node else "Queueing"),
        ready=reason in _READY and bool(node),
        issue_reason="" if reason in _READY else reason,
        issue_message=message,
    )


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A replica document with its readiness issue as one object, or without one."""
    status = dict(part(row, "status"))
    reason, message = readiness_issue(status.pop("readiness_issue", None))
    if reason not in _READY:
        status["readiness_issue"] = {"reason": reason, "message": message}
    return {**row, "status": status}


def rank_of(replica_id: str) -> int | None:
    """The worker index in `<job id>-<index>-<five characters>`."""
    found = _RANK.search(replica_id)
    return int(found.group(1)) if found else None


def readiness_issue(issue: Any) -> tuple[str, str]:
    """Reason and message of a readiness issue of any shape; ("", "") if there is none."""
    if isinstance(issue, list):
        serious = [item for item in issue if isinstance(item, dict) and item.get("reason") not in _READY]
        issue = serious[-1] if serious else None
    if not isinstance(issue, dict):
        return "", ""
    return plain(word(issue.get("reason"))), plain(word(issue.get("message")))


def first_issue(replicas: Iterable[Replica]) -> Replica | None:
    """The replica whose trouble explains why the job does not run: a real fault before mere waiting."""
    waiting = [item for item in replicas if item.issue_reason]
    faulty = [item for item in waiting if item.issue_reason not in ("InProgress", "NoCapacity", "Queueing")]
    return next(iter(faulty or waiting), None)
