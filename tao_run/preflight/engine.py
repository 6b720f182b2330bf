"""Runs checks side by side, each with a time limit; one that hangs or fails stops no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import TimeoutError as Overdue
from multiprocessing.pool import AsyncResult, ThreadPool

from tao_run.errors import TaoRunError
from tao_run.jobs.model import Check
from tao_run.redact import redact

Answer = Check | Sequence[Check]


@dataclass(frozen=True)
class Probe:
    """One thing to look at. `look` may raise TaoRunError, which is a failed check. `limit` is in seconds."""

    id: str
    look: Callable[[], Answer]
    limit: float = 30.0


def run_probes(probes: Sequence[Probe]) -> list[Check]:
    """The checks of all probes, in the order of the probes.

    A probe that gives no answer within its limit is a failed check; its thread is left behind and keeps no
    process alive (threads of this pool are daemons, those of concurrent.futures are not). An exception that
    is no TaoRunError is a fault of ours and is raised again.
    """
    if not probes:
        return []
    pool = ThreadPool(len(probes))
    started = time.monotonic()
    running = [(probe, pool.apply_async(_look, (probe,))) for probe in probes]
    pool.close()
    return [_clean(check) for probe, result in running for check in _collect(probe, result, started)]


def _look(probe: Probe) -> tuple[Check, ...]:
    try:
        answer = probe.look()
    except TaoRunError as error:
        return (Check(probe.id, "failed", error.message, error.hint),)
    return (answer,) if isinstance(answer, Check) else tuple(answer)


def _collect(probe: Probe, result: AsyncResult[tuple[Check, ...]], started: float) -> tuple[Check, ...]:
    try:
        return result.get(max(started + probe.limit - time.monotonic(), 0))
    except Overdue:
        fix = "check the network, or give it longer with --timeout"
        return (Check(probe.id, "failed", f"no answer within {probe.limit:g} seconds", fix),)


def _clean(check: Check) -> Check:
    """No secret value leaves preflight, whatever a backend put into its message."""
    return Check(check.id, check.status, redact(check.detail), redact(check.fix))
