"""Refuses what a strict API server refuses: unknown fields, wrong types, bad names, rules between fields."""

from __future__ import annotations

import copy
import re
from typing import Any

OLDEST, NEWEST = "1.25.0", "1.37.0"
LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")


def check(resource: str, obj: dict[str, Any]) -> None:
    """Raise the API error (400, 422) that a server of any version from 1.25 to 1.37 would answer with."""
    from tests.fakes.kubernetes.objects import ApiError

    problem = strict(obj)
    if problem:
        raise ApiError(400, "BadRequest", f"strict decoding error: {problem}")
    errors = list(_rules(resource, obj))
    if errors:
        kind, name = obj["kind"], obj["metadata"]["name"]
        text = f'{kind} "{name}" is invalid: {", ".join(errors)}'
        raise ApiError(422, "Invalid", text, name=name, kind=kind)


def strict(obj: dict[str, Any]) -> str:
    """The first complaint of the strict schemas of the oldest and newest version, or ''."""
    import kubernetes_validate

    if obj["kind"] not in ("Job", "Service", "Secret", "ConfigMap"):
        return ""
    for version in (OLDEST, NEWEST):
        try:
            kubernetes_validate.validate(copy.deepcopy(obj), version, strict=True)
        except kubernetes_validate.ValidationError as error:
            return f"{error.message} at {'/'.join(map(str, error.absolute_path))} ({version})"
    return ""


def _rules(resource: str, obj: dict[str, Any]) -> list[str]:
    meta, errors = obj["metadata"], []
    name, label = meta["name"], resource in ("services", "namespaces")
    limit = 63 if label or resource == "jobs" else 253
    if len(name) > limit:
        errors.append(f"metadata.name: must be no more than {limit} characters")
    if not (LABEL if label else SUBDOMAIN).match(name):
        errors.append(f'metadata.name: Invalid value: "{name}"')
    for key, value in (meta.get("labels") or {}).items():
        if len(value) > 63 or not LABEL_VALUE.match(value):
            errors.append(f'metadata.labels: Invalid value: "{value}" of {key}')
    for reference in meta.get("ownerReferences") or []:
        if not reference.get("uid"):
            errors.append("metadata.ownerReferences.uid: Required value: uid must not be empty")
    return errors + (_job_rules(obj) if resource == "jobs" else [])


def _job_rules(job: dict[str, Any]) -> list[str]:
    spec, errors = job["spec"], []
    pod = spec["template"]["spec"]
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        errors.append("spec.template.spec.restartPolicy: Required value: valid values: OnFailure, Never")
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and spec.get("completions") is None:
        errors.append("spec.completions: Required value: when completion mode is Indexed")
    longest = f"{job['metadata']['name']}-{(spec.get('completions') or 1) - 1}"
    if indexed and len(longest) > 63:
        errors.append("spec.completions: the pod hostname would be longer than 63 characters")
    volumes = {volume["name"] for volume in pod.get("volumes") or []}
    for container in pod["containers"]:
        paths = [mount["mountPath"] for mount in container.get("volumeMounts") or []]
        errors += [
            f'spec.template.spec.containers[0].volumeMounts.mountPath: Invalid value: "{path}": must be unique'
            for path in {p for p in paths if paths.count(p) > 1}
        ]
        errors += [
            f'spec.template.spec.containers[0].volumeMounts.name: Not found: "{mount["name"]}"'
            for mount in container.get("volumeMounts") or []
            if mount["name"] not in volumes
        ]
        resources = container.get("resources") or {}
        for resource, wanted in (resources.get("requests") or {}).items():
            limit = (resources.get("limits") or {}).get(resource)
            if "/" in resource and limit != wanted:
                errors.append(f"resources.requests: must be equal to {resource} limit")
        names = [variable["name"] for variable in container.get("env") or []]
        errors += [f'env.name: Duplicate value: "{n}"' for n in {n for n in names if names.count(n) > 1}]
    return errors
