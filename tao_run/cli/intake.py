"""What `submit` asks on a terminal, in a fixed order; without a terminal a missing value is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from tao_run.cli.runtime import Runtime
from tao_run.errors import UsageError

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest


def ask_what_is_missing(runtime: Runtime, data: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Platform, and with it whether to watch and how often. Raises UsageError naming the option without a terminal."""
    if data.get("platform"):
        return data
    if not _can_ask(runtime):
        raise UsageError("no platform given", "add --platform; `tao-run platforms` describes them")
    from tao_run.platforms.registry import canonical, names

    platform = canonical(typer.prompt(f"platform ({', '.join(names())})", err=True))
    if isinstance(given, dict):
        given["watch"] = typer.confirm("watch it until it has ended?", default=True, err=True)
        if given["watch"]:
            given["interval"] = typer.prompt("minutes between looks", default=given["interval"], type=float, err=True)
    missing = _missing_credentials(runtime, platform)
    if missing:
        runtime.output.note(
            f"not set for {platform}: {', '.join(missing)} (`tao-run platforms {platform}` says where to get them)"
        )
    return {**data, "platform": platform}


def confirm_image(runtime: Runtime, request: JobRequest, assume_yes: bool) -> None:
    """Show the image that a model resolved to, and ask whether to use it."""
    if request.model is None or request.image is None or assume_yes or not _can_ask(runtime):
        return
    if not typer.confirm(f"use image {request.image}?", default=True, err=True):
        raise UsageError("the image was not accepted", "name another one with --image")


def _missing_credentials(runtime: Runtime, platform: str) -> list[str]:
    from tao_run.catalog import load

    try:
        facts = load(environ=runtime.environ).platform(platform)
    except UsageError:
        return []  # a platform of somebody else's package is in no catalog
    return runtime.credentials.missing(fact.name for fact in facts.required_credentials)


def _can_ask(runtime: Runtime) -> bool:
    import sys

    return runtime.output.err.isatty() and sys.stdin.isatty()
