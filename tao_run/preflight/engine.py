"""Runs checks side by side, each with a time limit; one that hangs or fails stops no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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


@dataclass
class _Slot:
    probe: Probe
    started: float
    finished: threading.Event = field(default_factory=threading.Event)
    checks: tuple[Check, ...] = ()
    fault: BaseException | None = None


def run_probes(probes: Sequence[Probe]) -> list[Check]:
    """The checks of all probes, in the order of the probes.

    A probe that gives no answer within its limit is a failed check; its thread is left behind and keeps
    nothing alive. An exception that is no TaoRunError is a fault of ours and is raised again.
    """
    slots = [_start(probe) for probe in probes]
    found: list[Check] = []
    for slot in slots:
        left = slot.started + slot.probe.limit - time.monotonic()
        if not slot.finished.wait(max(left, 0)):
            found.append(_overdue(slot.probe))
        elif slot.fault is not None:
            raise slot.fault
        else:
            found.extend(_clean(check) for check in slot.checks)
    return found


def failed(check_id: str, error: TaoRunError) -> Check:
    """An error as a failed check."""
    return Check(check_id, "failed", error.message, error.hint)


def _start(probe: Probe) -> _Slot:
    slot = _Slot(probe, time.monotonic())
    threading.Thread(target=_look, args=(slot,), name=f"preflight {probe.id}", daemon=True).start()
    return slot


def _look(slot: _Slot) -> None:
    try:
        answer = slot.probe.look()
        slot.checks = (answer,) if isinstance(answer, Check) else tuple(answer)
    except TaoRunError as error:
        slot.checks = (failed(slot.probe.id, error),)
    except BaseException as fault:  # noqa: BLE001  carried to the caller's thread, where it is raised again
        slot.fault = fault
    finally:
        slot.finished.set()


def _overdue(probe: Probe) -> Check:
    return Check(
        probe.id,
        "failed",
        f"no answer within {probe.limit:g} seconds",
        "check the network, or give it longer with --timeout",
    )


def _clean(check: Check) -> Check:
    """No secret value leaves preflight, whatever a backend put into its message."""
    return Check(check.id, check.status, redact(check.detail), redact(check.fix))
