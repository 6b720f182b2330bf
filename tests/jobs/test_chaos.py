"""Backends that fail at random for ten minutes: no state is ever wrong, and watch ends with the right code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_run.jobs.watch import in_thread
from tests.jobs.chaos import Chaos


@pytest.mark.parametrize("seed", range(6))
def test_no_state_is_ever_wrong_however_backends_fail(tmp_path: Path, seed: int) -> None:
    run = Chaos(tmp_path, seed, failing=0.15 + 0.12 * seed, program_errors=seed % 2 == 0)
    code = run.run()
    assert run.wrong == []
    assert code == run.true_code()
    assert run.sweeps > 20
    assert run.bench.clock.seconds >= 60


def test_the_same_with_every_account_in_a_thread_of_its_own(tmp_path: Path) -> None:
    run = Chaos(tmp_path, 99, jobs_per_account=6, minutes=3, spawn=in_thread)
    code = run.run()
    assert run.wrong == []
    assert code == run.true_code()
