"""What the cluster saw happen around a job: its events and its place in Kueue's queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tao_run.errors import NotFound, PermissionRefused
from tao_run.jobs.model import NodeEvent
from tao_run.platforms.kubernetes.client import Api
from tao_run.platforms.kubernetes.pods import parse_time

Object = Mapping[str, Any]


def events_of(api: Api, job_name: str) -> tuple[NodeEvent, ...]:
    """Events of a Job and of its pods, oldest first; none if the user may not see events."""
    found = [event for event in visible(api, "events") if _belongs(event, job_name)]
    return tuple(to_event(event) for event in sorted(found, key=_when))


def visible(api: Api, resource: str, fields: str = "") -> list[dict[str, Any]]:
    """All objects of a resource that only explains: empty where it does not exist or may not be seen."""
    try:
        return api.list(resource, fields=fields)
    except (NotFound, PermissionRefused):
        return []


def _belongs(event: Object, job_name: str) -> bool:
    name = str((event.get("involvedObject") or {}).get("name") or "")
    return name == job_name or name.startswith(f"{job_name}-")


def _when(event: Object) -> str:
    stamps = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"].get("creationTimestamp"))
    return str(next((stamp for stamp in stamps if stamp), ""))


def to_event(event: Object) -> NodeEvent:
    """One event as all platforms show it. Only those of type Warning are causes."""
    source = event.get("source") or {}
    return NodeEvent(
        name=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
        node=str(source.get("host") or ""),
        time=parse_time(_when(event)),
        warning=event.get("type") == "Warning",
        count=int(event.get("count") or (event.get("series") or {}).get("count") or 1),
    )


def last_words(events: Iterable[Object], uid: str, known: Iterable[str]) -> str:
    """The reason of the last event about a Job that is gone, among those in `known`; empty if there is none."""
    ours = [event for event in events if (event.get("involvedObject") or {}).get("uid") == uid]
    reasons = [str(event.get("reason")) for event in sorted(ours, key=_when)]
    wanted = set(known)
    return next((reason for reason in reversed(reasons) if reason in wanted), "")


def last_message(events: Iterable[Object], uid: str) -> NodeEvent | None:
    """The newest event about an object."""
    ours = [event for event in events if (event.get("involvedObject") or {}).get("uid") == uid]
    return to_event(max(ours, key=_when)) if ours else None


def queue_message(workloads: Iterable[Object], job_uid: str) -> str:
    """Why Kueue has not admitted a Job yet, in Kueue's words; empty if it does not say."""
    for workload in workloads:
        owners = workload["metadata"].get("ownerReferences") or []
        if any(owner.get("uid") == job_uid for owner in owners):
            conditions = (workload.get("status") or {}).get("conditions") or []
            for kind in ("QuotaReserved", "Admitted", "Evicted"):
                for entry in conditions:
                    if entry.get("type") == kind and (entry.get("status") == "False") == (kind != "Evicted"):
                        return str(entry.get("message") or "")
    return ""
