"""Checks run side by side; one that hangs, fails or breaks is one line and stops no other."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tao_run.errors import BackendUnreachable
from tao_run.jobs.model import Check
from tao_run.preflight.engine import Probe, run_probes
from tao_run.redact import register


def ok(check_id: str) -> Check:
    return Check(check_id, "ok", "fine")


def test_all_probes_run_at_the_same_time() -> None:
    together = threading.Barrier(10, timeout=20)

    def look() -> Check:
        together.wait()
        return ok("x")

    checks = run_probes([Probe(str(number), look) for number in range(10)])
    assert [check.status for check in checks] == ["ok"] * 10


def test_a_probe_that_hangs_is_a_failed_check_and_the_others_are_kept() -> None:
    forever = threading.Event()
    checks = run_probes(
        [
            Probe("hangs", lambda: ok("hangs") if forever.wait() else ok("no"), limit=0.1),
            Probe("quick", lambda: ok("quick")),
        ]
    )
    assert [(check.id, check.status) for check in checks] == [("hangs", "failed"), ("quick", "ok")]
    assert "0.1 seconds" in checks[0].detail
    forever.set()


def test_a_hanging_check_does_not_keep_the_process_alive() -> None:
    code = (
        "import threading\n"
        "from tao_run.preflight.engine import Probe, run_probes\n"
        "print(run_probes([Probe('x', lambda: threading.Event().wait(), limit=0.1)])[0].status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "failed\n", "")


def test_an_error_is_a_failed_check_with_its_hint() -> None:
    def look() -> Check:
        raise BackendUnreachable("it does not answer", "check the proxy")

    assert run_probes([Probe("p", look)]) == [Check("p", "failed", "it does not answer", "check the proxy")]


def test_order_is_the_order_of_the_probes_and_lists_are_laid_flat() -> None:
    first = threading.Event()

    def slow() -> list[Check]:
        first.wait(20)
        return [ok("a"), ok("b")]

    def quick() -> Check:
        first.set()
        return ok("c")

    assert [check.id for check in run_probes([Probe("slow", slow), Probe("quick", quick)])] == ["a", "b", "c"]


def test_a_fault_of_ours_is_not_hidden() -> None:
    def look() -> Check:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_probes([Probe("p", look)])


def test_secrets_in_a_backends_message_are_masked() -> None:
    register(["canary-engine-secret"])
    [check] = run_probes([Probe("p", lambda: Check("p", "failed", "bad canary-engine-secret", "canary-engine-secret"))])
    assert "canary" not in check.detail + check.fix
