"""Turns a request into what a container runs: bash text with the runner in it, and the variables it needs."""

from tao_run.entrypoint.build import build_entrypoint
from tao_run.entrypoint.entry import Entry, entry_for

__all__ = ["Entry", "build_entrypoint", "entry_for"]
