"""The two generations of the skill bank, as test data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_run import catalog
from tao_run.catalog import Catalog

BANKS = Path(__file__).parents[1] / "data" / "bank"


@pytest.fixture(scope="session", params=["7.0.0", "7.2.0"])
def bank_dir(request: pytest.FixtureRequest) -> Path:
    return BANKS / str(request.param)


@pytest.fixture(scope="session")
def bank(bank_dir: Path) -> Catalog:
    return catalog.load(bank_dir)


@pytest.fixture(scope="session")
def packaged() -> Catalog:
    return catalog.load(environ={})


@pytest.fixture(scope="session")
def august() -> Catalog:
    return catalog.load(BANKS / "7.2.0")
