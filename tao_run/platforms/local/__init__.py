"""The embedded platform: jobs as processes of this machine, detached from the terminal."""

from __future__ import annotations

from typing import Any

__all__ = ["LocalSDK"]


def __getattr__(name: str) -> Any:
    """LocalSDK, imported late: the supervisor of a job lives in this package and must start fast."""
    if name == "LocalSDK":
        from tao_run.platforms.local.adapter import LocalSDK

        return LocalSDK
    raise AttributeError(name)
