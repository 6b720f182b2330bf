"""Packages and programs that this machine needs for a platform, with the command that installs them."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable

from tao_run.catalog.versions import pip_install
from tao_run.jobs.model import Check

# platform -> Python packages (import name, name in versions.yaml) and programs (name, how to get it)
PACKAGES: dict[str, tuple[tuple[str, str], ...]] = {
    "lepton": (("leptonai", "leptonai"),),
    "docker": (("docker", "docker"),),
    "kubernetes": (("kubernetes", "kubernetes"),),
}
# The brev adapter looks for its tools itself: it also has to know their version.
TOOLS: dict[str, tuple[tuple[str, str], ...]] = {
    "slurm": (("ssh", "install the OpenSSH client (apt-get install openssh-client)"),),
}

Finder = Callable[[str], bool]


def has_package(name: str) -> bool:
    """Whether a package can be imported, found out without importing it."""
    return importlib.util.find_spec(name) is not None


def has_tool(name: str) -> bool:
    """Whether a program is on the PATH."""
    return shutil.which(name) is not None


def check_packages(platform: str, storage: bool, finder: Finder = has_package) -> list[Check]:
    """One check per needed package; `storage` adds the one for s3://."""
    needed = [*PACKAGES.get(platform, ()), *([("boto3", "boto3")] if storage else [])]
    return [_package(imported, pinned, finder) for imported, pinned in needed]


def check_tools(platform: str, finder: Finder = has_tool) -> list[Check]:
    """One check per needed program."""
    return [
        Check(f"tool.{name}", "ok", f"{name} is installed")
        if finder(name)
        else Check(f"tool.{name}", "failed", f"{name} is not installed", how)
        for name, how in TOOLS.get(platform, ())
    ]


def _package(imported: str, pinned: str, finder: Finder) -> Check:
    if finder(imported):
        return Check(f"package.{imported}", "ok", f"{imported} is installed")
    return Check(f"package.{imported}", "failed", f"{imported} is not installed", pip_install(pinned))
