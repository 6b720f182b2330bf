"""Packages and programs, with the command that installs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tao_run.platforms.registry import BUILTIN
from tao_run.preflight import tools


@pytest.mark.parametrize(
    ("platform", "storage", "commands"),
    [
        ("docker", False, ["pip install 'docker>=7.1,<8'"]),
        ("lepton", True, ["pip install 'leptonai>=0.47,<1'", "pip install 'boto3>=1.36,<2'"]),
        ("kubernetes", False, ["pip install 'kubernetes>=31,<36'"]),
        ("slurm", False, []),
        ("local", True, ["pip install 'boto3>=1.36,<2'"]),
    ],
)
def test_missing_packages_come_with_the_pinned_command(platform: str, storage: bool, commands: list[str]) -> None:
    checks = tools.check_packages(platform, storage, finder=lambda name: False)
    assert [check.fix for check in checks] == commands
    assert all(check.status == "failed" for check in checks)


@pytest.mark.parametrize(("platform", "names"), [("slurm", ["ssh"]), ("local", [])])
def test_missing_tools(platform: str, names: list[str]) -> None:
    checks = tools.check_tools(platform, finder=lambda name: False)
    assert [check.id for check in checks] == [f"tool.{name}" for name in names]
    assert all(check.fix for check in checks)


def test_tables_name_existing_platforms_only() -> None:
    assert set(tools.PACKAGES) | set(tools.TOOLS) <= set(BUILTIN)


def test_looking_for_a_package_does_not_import_it() -> None:
    code = (
        "import sys; from tao_run.preflight import tools; tools.check_packages('docker', True);"
        "print('docker' in sys.modules or 'boto3' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
