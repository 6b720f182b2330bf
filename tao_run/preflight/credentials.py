"""Presence of credentials: the platform's, storage's, the model's and the job's own. Never a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tao_run.catalog.facts import PlatformFacts
from tao_run.catalog.reports import readiness
from tao_run.credentials import Credentials
from tao_run.jobs.model import Check
from tao_run.storage.s3 import REQUIRED

_ENV_FILE = "~/.config/tao/.env"


def check_platform(facts: PlatformFacts, credentials: Credentials) -> Check:
    """All variables the platform always needs; what is missing is named together, with where to get it."""
    missing = readiness(facts, credentials).missing
    if not missing:
        count = len(facts.required_credentials)
        return Check("credentials.platform", "ok", f"all {count} are set" if count else f"{facts.name} needs none")
    entries = {entry.name: entry.how_to_get for entry in facts.required_credentials}
    groups = {" or ".join(group.require_one_of): group.how_to_get for group in facts.credential_groups}
    return _missing("credentials.platform", missing, {**entries, **groups})


def check_storage(credentials: Credentials) -> Check:
    """The keys for s3:// paths."""
    missing = credentials.missing(REQUIRED)
    if not missing:
        return Check("credentials.storage", "ok", "ACCESS_KEY and SECRET_KEY are set")
    return _missing("credentials.storage", missing, {})


def check_model(model: str, required: Sequence[str], conditional: Mapping[str, str], credentials: Credentials) -> Check:
    """What the model's own metadata asks for, such as HF_TOKEN for gated weights."""
    missing = credentials.missing(required)
    if missing:
        return _missing("credentials.model", missing, {}, f"{model} needs ")
    unset = [name for name in conditional if not credentials.has(name)]
    if unset:
        text = "; ".join(f"{name} is not set: {conditional[name]}" for name in unset)
        return Check("credentials.model", "ok", text, f"set {', '.join(unset)} if that applies")
    return Check("credentials.model", "ok", f"{', '.join(required) or 'none'} needed by {model}")


def check_job(secrets: Mapping[str, str], credentials: Credentials) -> Check:
    """The credentials that the job wants to see in its container."""
    missing = credentials.missing(dict.fromkeys(secrets.values()))
    if missing:
        return _missing("credentials.job", missing, {}, "the job wants ")
    return Check("credentials.job", "ok", f"{', '.join(secrets)} will be set in the container")


def check_image_pull(image: str, credentials: Credentials) -> Check:
    """NGC_KEY for images of nvcr.io: public ones need none, so its absence only warns."""
    if credentials.has("NGC_KEY"):
        return Check("credentials.registry", "ok", "NGC_KEY is set for nvcr.io")
    return Check(
        "credentials.registry",
        "ok",
        f"NGC_KEY is not set: {image} is pulled without a login",
        "set NGC_KEY if the image is private or not yet on the platform",
    )


def check_file(credentials: Credentials) -> Check:
    """The credentials file: others must not read it, and every line must be understood."""
    if credentials.warnings:
        fix = "chmod 600 and repair the lines named; `tao-run init` shows what is set"
        return Check("credentials.file", "ok", "; ".join(credentials.warnings), fix)
    return Check("credentials.file", "ok", "the credentials file has no fault")


def _missing(check_id: str, names: Sequence[str], how: Mapping[str, str], lead: str = "") -> Check:
    where = " ".join(f"{name}: {how[name]}" for name in names if how.get(name))
    fix = f"set {', '.join(names)} in the environment or in {_ENV_FILE}"
    detail = f"{lead}{', '.join(names)}, not set" if lead else f"not set: {', '.join(names)}"
    return Check(check_id, "failed", detail, f"{fix}. {where}" if where else fix)
