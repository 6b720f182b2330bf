"""Checks of data paths: exact, readable, writable for results, and proved by the platform that will see them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_run.errors import TaoRunError, UsageError
from tao_run.jobs.model import Check
from tao_run.jobs.request import JobRequest
from tao_run.storage.s3 import S3Store
from tao_run.storage.uris import FETCHED, Location, parse_location, single_slashes

if TYPE_CHECKING:
    from tao_run.platforms.base import Platform

_INTERPOLATED = "${"


def input_uris(request: JobRequest) -> dict[str, tuple[str, bool]]:
    """Label -> URI and whether it may be absent. A list of URIs gets numbered labels."""
    found: dict[str, tuple[str, bool]] = {}
    for label, source in request.inputs.items():
        if isinstance(source.uri, str):
            found[label] = (source.uri, source.optional)
        else:
            found.update({f"{label}[{number}]": (uri, source.optional) for number, uri in enumerate(source.uri)})
    return found


def output_uris(request: JobRequest) -> dict[str, str]:
    """Label -> URI of outputs that say where they go, and of the root of the results."""
    found = {label: target.uri for label, target in request.outputs.items() if target.uri}
    return {**found, **({"results": request.results} if request.results else {})}


def uses_s3(request: JobRequest, results_dir: str) -> bool:
    """Whether anything of the request lies in an S3-compatible store."""
    inputs = [uri for uri, _ in input_uris(request).values()]
    return any(uri.startswith("s3://") for uri in (*inputs, *output_uris(request).values(), results_dir))


def check_input(label: str, uri: str, optional: bool, store: S3Store, platform: Platform, request: JobRequest) -> Check:
    """One input: there, and readable by whoever will read it. Raises TaoRunError: a wrong form, a refusal."""
    check_id = f"path.{label}"
    if _INTERPOLATED in uri:
        return Check(check_id, "skipped", f"{uri} is filled in inside the container")
    if "://" not in uri and not uri.startswith("/") and label not in ("", uri):
        return Check(check_id, "skipped", f"{uri} is relative: only the container can tell")
    location = parse_location(uri)
    if location.is_s3:
        found = _s3_input(check_id, location, store)
    elif location.is_file:
        found = _mounted(check_id, location, platform, request)
    elif location.scheme in FETCHED:
        return Check(check_id, "skipped", f"{uri} is fetched by the job itself")
    else:
        return Check(check_id, "failed", f"a job does not fetch {uri}", "copy it to s3:// and name that")
    if optional and found.status == "failed":
        return Check(check_id, "ok", f"optional: {found.detail}", found.fix)
    return found


def check_output(label: str, uri: str, store: S3Store, platform: Platform, request: JobRequest) -> Check:
    """A place for results: an object is written there, read back and deleted; a directory here is writable."""
    check_id = "results" if label == "results" else f"output.{label}"
    try:
        uri = uri or platform.discovered_results(request)
    except TaoRunError as error:  # the platform's own check says it too: one cause is one failure
        return Check(check_id, "skipped", f"where they would go is not known: {error.message}")
    if not uri:
        return Check(check_id, "ok", "results stay inside the job and are lost with it", "say where with --results")
    if uri.startswith("~/") and not platform.sees_this_machine(request):
        return Check(check_id, "skipped", f"{uri} is made by {platform.name} when the job starts")
    location = parse_location(uri)
    if location.is_s3:
        remark = store.probe_write(location)
        return Check(check_id, "ok", f"{uri} can be written", remark) if not remark else Check(check_id, "ok", remark)
    if not location.is_file:
        raise UsageError(f"{uri}: results cannot go there", "use s3://bucket/path or a directory that the job sees")
    if not platform.sees_this_machine(request):
        return Check(check_id, "skipped", f"{location.path} is made by {platform.name} when the job starts")
    return _writable(check_id, Path(location.path))


def check_spec_uris(spec: Mapping[str, Any]) -> Check:
    """Every string of the spec that looks like a URI has a scheme that exists here."""
    wrong = []
    for text in _strings(spec):
        try:
            if "://" in text and _INTERPOLATED not in text:
                parse_location(text)
        except UsageError as error:
            wrong.append(error)
    if wrong:
        hints = "; ".join(dict.fromkeys(error.hint for error in wrong))
        return Check("spec.uris", "failed", "; ".join(error.message for error in wrong), hints)
    return Check("spec.uris", "ok", "no URI of the spec is misspelled")


def _s3_input(check_id: str, location: Location, store: S3Store) -> Check:
    """The object or prefix that the job will fetch: the runner takes doubled slashes for single ones."""
    single = parse_location(single_slashes(location.text))
    found = store.find(single)
    fix = "" if single.text == location.text else f"it has a doubled slash: write {single.text}"
    if not found.exists:
        shorter = single.text.rstrip("/")
        if shorter != single.text and store.find(parse_location(shorter)).exists:
            fix = f"it is one object: write {shorter}"
        fix = fix or "check the path; `tao-run paths ls` shows what is there"
        return Check(check_id, "failed", f"{single.text} does not exist: {found.detail}", fix)
    if store.read_sample(single) == "empty":
        return Check(check_id, "ok", f"{single.text} is empty", fix or "put data there")
    return Check(check_id, "ok", f"{single.text} is there ({found.kind}) and readable", fix)


def _mounted(check_id: str, location: Location, platform: Platform, request: JobRequest) -> Check:
    """Proof from where the job will run; this machine's own files prove nothing about another one."""
    proof = platform.prove_path(location.path, request)
    if proof is None:
        return Check(
            check_id,
            "skipped",
            f"{location.path}: {platform.name} cannot tell from here whether jobs see it",
            "see that a mount of the job has it, or use s3://",
        )
    return Check(check_id, proof.status, proof.detail, proof.fix)


def _writable(check_id: str, path: Path) -> Check:
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(b"x")
    except OSError as error:
        detail = f"{path} cannot be written: {error.strerror} at {there}"
        return Check(check_id, "failed", detail, "choose another place with --results")
    return Check(check_id, "ok", f"{path} can be written")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)
