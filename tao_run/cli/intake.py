"""What `submit` asks on a terminal, in a fixed order; without a terminal a missing value is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tao_run.cli.asking import agree, ask, ask_number
from tao_run.cli.runtime import Runtime
from tao_run.errors import UsageError

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest


def ask_what_is_missing(runtime: Runtime, data: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Platform, and with it whether to watch and how often. Raises UsageError naming the option without a terminal."""
    if data.get("platform"):
        return data
    if not runtime.can_ask():
        raise UsageError("no platform given", "add --platform; `tao-run platforms` describes them")
    from tao_run.platforms.registry import canonical, names

    platform = canonical(ask(runtime, f"platform ({', '.join(names())})"))
    if isinstance(given, dict):
        given["watch"] = agree(runtime, "watch it until it has ended?", default=True)
        if given["watch"]:
            given["interval"] = ask_number(runtime, "minutes between looks", given["interval"])
    missing = _missing_credentials(runtime, platform)
    if missing:
        runtime.output.note(
            f"not set for {platform}: {', '.join(missing)} (`tao-run platforms {platform}` says where to get them)"
        )
    return {**data, "platform": platform}


def confirm_image(runtime: Runtime, request: JobRequest, assume_yes: bool) -> None:
    """Show the image that a model resolved to, and ask whether to use it."""
    if request.model is None or request.image is None or assume_yes or not runtime.can_ask():
        return
    if not agree(runtime, f"use image {request.image}?", default=True):
        raise UsageError("the image was not accepted", "name another one with --image")


def _missing_credentials(runtime: Runtime, platform: str) -> list[str]:
    from tao_run.catalog import load

    try:
        facts = load(environ=runtime.environ).platform(platform)
    except UsageError:
        return []  # a platform of somebody else's package is in no catalog
    return runtime.credentials.missing(fact.name for fact in facts.required_credentials)
