"""The object store of the fake API: create, read, list, patch, delete, with versions, owners and selectors."""

from __future__ import annotations

import copy
import datetime
import itertools
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from tests.fakes.kubernetes.schemas import check

Obj = dict[str, Any]

API = {
    "jobs": ("batch/v1", "Job"),
    "pods": ("v1", "Pod"),
    "services": ("v1", "Service"),
    "secrets": ("v1", "Secret"),
    "configmaps": ("v1", "ConfigMap"),
    "events": ("v1", "Event"),
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
    "serviceaccounts": ("v1", "ServiceAccount"),
    "resourcequotas": ("v1", "ResourceQuota"),
    "priorityclasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "workloads": ("kueue.x-k8s.io/v1beta1", "Workload"),
    "localqueues": ("kueue.x-k8s.io/v1beta1", "LocalQueue"),
}


class ApiError(Exception):
    """An answer of the API that is not a success: becomes a `Status` object on the wire."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.reason, self.details = code, reason, details

    def status(self) -> Obj:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


def now(fraction: bool = False) -> str:
    stamp = datetime.datetime.now(datetime.timezone.utc)
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if fraction else "%Y-%m-%dT%H:%M:%SZ")


def not_found(resource: str, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource} "{name}" not found', name=name, kind=resource)


def matches(labels: dict[str, str], selector: str) -> bool:
    """Equality, inequality, existence and `in (...)` terms, as the API server reads them."""
    for term in _terms(selector):
        if " in " in term:
            key, values = term.split(" in ", 1)
            if labels.get(key.strip()) not in {v.strip() for v in values.strip(" ()").split(",")}:
                return False
        elif "!=" in term:
            key, value = term.split("!=", 1)
            if labels.get(key.strip()) == value.strip():
                return False
        elif "=" in term:
            key, value = term.replace("==", "=").split("=", 1)
            if labels.get(key.strip()) != value.strip():
                return False
        elif term.startswith("!") == (term.lstrip("!") in labels):
            return False
    return True


def _terms(selector: str) -> Iterator[str]:
    depth, term = 0, ""
    for char in selector + ",":
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            if term.strip():
                yield term.strip()
            term = ""
        else:
            term += char


def field(obj: Obj, path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = (value or {}).get(part)
    return "" if value is None else str(value)


def merge(target: Obj, patch: Obj) -> Obj:
    """JSON merge patch (RFC 7386)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value
    return target


class Objects:
    """All objects of the cluster. `changed` is notified after each write."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.strict = True
        self.admit: list[Callable[[str, Obj], None]] = []
        self._all: dict[str, dict[tuple[str, str], Obj]] = {resource: {} for resource in API}
        self._version = itertools.count(1000)

    def version(self) -> str:
        return str(next(self._version))

    def create(self, resource: str, namespace: str, body: Obj, dry_run: bool = False) -> Obj:
        with self.lock:
            obj = copy.deepcopy(body)
            meta = obj.setdefault("metadata", {})
            obj.setdefault("apiVersion", API[resource][0])
            obj.setdefault("kind", API[resource][1])
            name = meta.setdefault("name", f"{meta.get('generateName', '')}{uuid.uuid4().hex[:5]}")
            if namespace:
                self._require_namespace(namespace)
                meta["namespace"] = namespace
            if self.strict:
                check(resource, obj)
            for rule in self.admit:
                rule(resource, obj)
            if (namespace, name) in self._all[resource]:
                text = f'{resource} "{name}" already exists'
                raise ApiError(409, "AlreadyExists", text, name=name, kind=resource)
            meta.update(uid=str(uuid.uuid4()), creationTimestamp=now(), resourceVersion=self.version())
            if not dry_run:
                self._all[resource][namespace, name] = obj
                self.changed.notify_all()
            return copy.deepcopy(obj)

    def _require_namespace(self, namespace: str) -> None:
        if ("", namespace) not in self._all["namespaces"]:
            raise not_found("namespaces", namespace)

    def live(self, resource: str, namespace: str, name: str) -> Obj:
        """The stored object itself, for the controllers; hold `lock`."""
        found = self._all[resource].get((namespace, name))
        if found is None:
            raise not_found(resource, name)
        return found

    def each(self, resource: str, namespace: str | None = None) -> list[Obj]:
        return [o for (ns, _), o in list(self._all[resource].items()) if namespace in (None, ns)]

    def get(self, resource: str, namespace: str, name: str) -> Obj:
        with self.lock:
            return copy.deepcopy(self.live(resource, namespace, name))

    def select(self, resource: str, namespace: str | None, labels: str = "", fields: str = "") -> list[Obj]:
        with self.lock:
            terms = [re.split("(!?=)", term, maxsplit=1) for term in fields.split(",") if term]
            return [
                copy.deepcopy(o)
                for o in self.each(resource, namespace)
                if matches(o["metadata"].get("labels") or {}, labels)
                and all((field(o, key) == value) == (sign == "=") for key, sign, value in terms)
            ]

    def patch(self, resource: str, namespace: str, name: str, patch: Obj) -> Obj:
        with self.lock:
            obj = self.live(resource, namespace, name)
            merge(obj, patch)
            self.touch(obj)
            return copy.deepcopy(obj)

    def touch(self, obj: Obj) -> None:
        obj["metadata"]["resourceVersion"] = self.version()
        self.changed.notify_all()

    def delete(self, resource: str, namespace: str, name: str, options: Obj) -> Obj:
        """Delete as the API server does: pods end gracefully, a foreground delete waits for the children."""
        with self.lock:
            obj = self.live(resource, namespace, name)
            wanted = (options.get("preconditions") or {}).get("uid")
            if wanted and wanted != obj["metadata"]["uid"]:
                text = (
                    f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {obj['metadata']['uid']}"
                )
                raise ApiError(409, "Conflict", text, name=name, kind=resource)
            graceful = resource == "pods" and (obj.get("status") or {}).get("phase") in ("Pending", "Running")
            foreground = options.get("propagationPolicy") == "Foreground" and self.children(obj)
            if graceful or foreground:
                obj["metadata"].setdefault("deletionTimestamp", now())
                if graceful:
                    grace = options.get("gracePeriodSeconds")
                    obj["metadata"]["deletionGracePeriodSeconds"] = 30 if grace is None else grace
                if foreground:
                    obj["metadata"]["finalizers"] = ["foregroundDeletion"]
                    for child_resource, child in self.children(obj):
                        self._drop_child(child_resource, child)
                self.touch(obj)
                return copy.deepcopy(obj)
            self.remove(resource, obj, orphan=options.get("propagationPolicy") == "Orphan")
            return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _drop_child(self, resource: str, child: Obj) -> None:
        meta = child["metadata"]
        self.delete(resource, meta["namespace"], meta["name"], {})

    def children(self, owner: Obj) -> list[tuple[str, Obj]]:
        uid = owner["metadata"]["uid"]
        return [
            (resource, o)
            for resource, held in self._all.items()
            for o in list(held.values())
            if any(ref["uid"] == uid for ref in o["metadata"].get("ownerReferences") or [])
        ]

    def remove(self, resource: str, obj: Obj, orphan: bool = False) -> None:
        """Drop the object and, as the garbage collector does, what it owns."""
        meta = obj["metadata"]
        self._all[resource].pop((meta.get("namespace", ""), meta["name"]), None)
        for child_resource, child in [] if orphan else self.children(obj):
            self._drop_child(child_resource, child)
        self.changed.notify_all()

    def event(self, about: Obj, reason: str, message: str, kind: str = "Warning") -> None:
        """Record an event, as a controller does; the same reason and message only raise its count."""
        with self.lock:
            meta = about["metadata"]
            for held in self.each("events", meta["namespace"]):
                if held["involvedObject"]["uid"] == meta["uid"] and held["message"] == message:
                    held["count"] += 1
                    held["lastTimestamp"] = now()
                    return
            reference = {"kind": about["kind"], "name": meta["name"], "uid": meta["uid"]}
            body = {
                "metadata": {"name": f"{meta['name']}.{uuid.uuid4().hex[:16]}"},
                "involvedObject": {**reference, "namespace": meta["namespace"]},
                "reason": reason,
                "message": message,
                "type": kind,
                "count": 1,
                "firstTimestamp": now(),
                "lastTimestamp": now(),
            }
            self.create("events", meta["namespace"], body)
