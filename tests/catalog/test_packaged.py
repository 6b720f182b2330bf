"""The packaged catalog: fresh, complete, cheap to load, and silent about secrets."""

from __future__ import annotations

import filecmp
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tao_run import catalog
from tao_run.catalog import Catalog
from tao_run.catalog.versions import keys_of, lookup, own_versions, pip_install
from tao_run.errors import UsageError
from tao_run.storage.s3 import INSTALL

ROOT = Path(__file__).parents[2]
BANK = ROOT / "tests/data/bank/7.0.0"
DATA = ROOT / "tao_run/catalog/data"


def build(target: Path, bank: Path = BANK) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/build_catalog.py"), "--skill-bank", str(bank), "--output"]
    return subprocess.run([*command, str(target)], capture_output=True, text=True, check=False)


def test_the_packaged_files_are_what_the_build_script_writes(tmp_path: Path) -> None:
    assert build(tmp_path).returncode == 0
    names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")]
    assert len(names) == 31 + 2
    match, mismatch, errors = filecmp.cmpfiles(tmp_path, DATA, names, shallow=False)
    assert (sorted(match), mismatch, errors) == (sorted(names), [], [])
    packaged = {path.relative_to(DATA).as_posix() for path in DATA.rglob("*.json")}
    assert packaged == set(names)


def test_building_from_something_else_is_one_line_and_exit_2(tmp_path: Path) -> None:
    result = build(tmp_path / "out", tmp_path)
    assert result.returncode == 2
    assert "is not a TAO skill bank" in result.stderr
    assert "Traceback" not in result.stderr


def test_packaged_and_bank_agree_on_everything(packaged: Catalog) -> None:
    bank = catalog.load(BANK)
    assert list(packaged.models()) == list(bank.models())
    assert list(packaged.platforms()) == list(bank.platforms())
    assert all(packaged.model(entry.model) == bank.model(entry.model) for entry in bank.models())


def test_versions_hold_the_banks_pins_and_the_wheel_the_field_asks_for() -> None:
    ours, theirs = own_versions(), yaml.safe_load((BANK / "versions.yaml").read_text())
    assert ours["images"] == theirs["images"]
    assert ours["wheels"] == theirs["wheels"]
    assert lookup(ours, "wheels.tao_sdk_lepton") == "nvidia-tao-sdk[lepton]==7.0.0"


def test_package_pins_are_those_of_pyproject() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    extras = {"leptonai", "requests", "docker", "kubernetes", "boto3"}
    assert all(f'"{own_versions()["packages"][name]}"' in text for name in extras)


def test_pip_line_is_quoted_for_the_shell() -> None:
    assert pip_install("boto3") == "pip install 'boto3>=1.36,<2'" == INSTALL


def test_a_group_or_unknown_key_lists_the_keys() -> None:
    for key in ("wheels", "wheels.nope", "images.tao_toolkit", "nonsense"):
        with pytest.raises(UsageError) as raised:
            catalog.load(environ={}).resolve_key(key)
        assert any(choice in raised.value.hint for choice in keys_of(own_versions()))


def test_importing_the_catalog_reads_no_model() -> None:
    code = (
        "import sys; from tao_run import catalog; c = catalog.load(environ={}); c.models();"
        "print('pydantic' in sys.modules, 'models' in c._source.__dict__)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.split() == ["False", "False"]
