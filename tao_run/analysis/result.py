"""The outcome of an analysis, and its plain-data form with the keys that TAO's SDKs use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tao_run.analysis.hits import Hit
from tao_run.analysis.ruleset import Certainty, ErrClass
from tao_run.redact import redact


@dataclass(frozen=True)
class FirstFailed:
    """The process that failed first. `rank` is the process's, `node_rank` the replica's."""

    rank: int | None = None
    node_rank: int | None = None
    replica: str = ""
    node: str = ""
    exit_code: int | None = None
    time: str = ""

    @property
    def known(self) -> bool:
        """Whether anything at all is known of it."""
        return self.rank is not None or self.node_rank is not None or bool(self.replica)


@dataclass(frozen=True)
class AlsoSeen:
    """Another rule that fits, weaker than or explained by the chosen one."""

    rule: str
    title: str
    count: int
    line: str


@dataclass(frozen=True)
class FailureAnalysis:
    """Why a job failed (or waits), what to do, and what that is concluded from.

    `retryable` says whether the same job may well succeed if it is just run again. `avoid_nodes` are nodes at
    fault. `native` is the backend's own analysis, as it gave it.
    """

    rule: str
    title: str
    category: str
    err_class: ErrClass
    certainty: Certainty
    means: str
    suggestion: str
    retryable: bool
    evidence: tuple[Hit, ...] = ()
    first_failed: FirstFailed = FirstFailed()
    victims: tuple[int, ...] = ()
    avoid_nodes: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    also_seen: tuple[AlsoSeen, ...] = ()
    node_events: tuple[Mapping[str, Any], ...] = ()
    native: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data. `job_failure_by_node_event` and `log_streams` have the same shape on every platform."""
        return {
            "err_class": self.err_class,
            "category": self.category,
            "rule": self.rule,
            "title": self.title,
            "certainty": self.certainty,
            "means": self.means,
            "suggestion": self.suggestion,
            "retryable": self.retryable,
            "details": dict(self.details),
            "first_failed": self._first(),
            "victim_ranks": list(self.victims),
            "avoid_nodes": list(self.avoid_nodes),
            "evidence": [_line(hit) for hit in self.evidence],
            "also_seen": [vars(item) for item in self.also_seen],
            "job_failure_by_node_event": [dict(event) for event in self.node_events],
            "log_streams": self._streams(),
            "native": _plain_native(self.native),
        }

    def _first(self) -> dict[str, Any] | None:
        return vars(self.first_failed) if self.first_failed.known else None

    def _streams(self) -> list[dict[str, Any]]:
        streams: dict[str, list[list[str]]] = {}
        for hit in self.evidence:
            if hit.source == "log":
                streams.setdefault(hit.replica or _label(hit), []).append([_nanoseconds(hit.time), hit.text])
        return [{"stream": {"replica": name}, "values": values} for name, values in streams.items()]


#: the keys of `to_dict` when there is nothing to say
EMPTY: dict[str, Any] = {
    "err_class": None,
    "category": None,
    "suggestion": None,
    "retryable": None,
    "job_failure_by_node_event": [],
    "log_streams": [],
}


def _plain_native(native: Mapping[str, Any] | None) -> Any:
    """What the backend gave, without any secret that it may have quoted from a log."""
    return None if native is None else json.loads(redact(json.dumps(dict(native), default=str)))


def _label(hit: Hit) -> str:
    rank = hit.node_rank if hit.node_rank is not None else hit.rank
    return "log" if rank is None else f"rank-{rank}"


def _nanoseconds(time: datetime | None) -> str:
    return "" if time is None else str(int(time.timestamp() * 1_000_000) * 1000)


def _line(hit: Hit) -> dict[str, Any]:
    return {
        "source": hit.source,
        "line": hit.number or None,
        "time": None if hit.time is None else hit.time.isoformat(),
        "rank": hit.rank,
        "node_rank": hit.node_rank,
        "replica": hit.replica,
        "node": hit.node,
        "text": hit.text,
    }


@dataclass(frozen=True)
class Report:
    """Result of `analyze`: of which job or log, its state, and the analysis if there is something to say."""

    subject: str
    state: str
    analysis: FailureAnalysis | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the analysis' own keys beside `subject`, `state` and `found`; all null if nothing was found."""
        keys = EMPTY if self.analysis is None else self.analysis.to_dict()
        return {"subject": self.subject, "state": self.state, "found": self.analysis is not None, **keys}
