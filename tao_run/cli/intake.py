"""What `submit` asks on a terminal, in a fixed order; without a terminal a missing value is an error.

Platform, monitoring and its interval, then the image to confirm. What was said on the command line is not asked.
Which credentials are missing is told after that, by the launch checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tao_run.cli.asking import agree, ask, ask_number
from tao_run.cli.runtime import Runtime
from tao_run.errors import UsageError

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest

_MINUTES = 5.0


def ask_platform(runtime: Runtime) -> str:
    """The platform. Raises UsageError naming the option without a terminal."""
    if not runtime.can_ask():
        raise UsageError("no platform given", "add --platform; `tao-run platforms` describes them")
    from tao_run.platforms.registry import canonical, names

    return canonical(ask(runtime, f"platform ({', '.join(names())})"))


def ask_monitoring(runtime: Runtime, given: Mapping[str, Any]) -> dict[str, Any]:
    """Whether to watch, and how often, as far as that was not said."""
    watch, interval = given["watch"], given["interval"]
    if watch is None:
        watch = agree(runtime, "watch it until it has ended?", default=True)
    if watch and interval is None:
        interval = ask_number(runtime, "minutes between looks", _MINUTES)
    return monitoring({"watch": watch, "interval": interval})


def monitoring(given: Mapping[str, Any]) -> dict[str, Any]:
    """Whether to watch, and how often: what was said, or the default."""
    watch, interval = given["watch"], given["interval"]
    return {"watch": watch is None or watch, "interval": _MINUTES if interval is None else interval}


def confirm_image(runtime: Runtime, request: JobRequest, assume_yes: bool) -> None:
    """Show the image that a model resolved to, and ask whether to use it."""
    if request.model is None or request.image is None or assume_yes or not runtime.can_ask():
        return
    if not agree(runtime, f"use image {request.image}?", default=True):
        raise UsageError("the image was not accepted", "name another one with --image")
