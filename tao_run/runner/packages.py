"""Finds a Python package for the runner without touching the image: import, staged wheel, private install."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import List, Mapping, Optional

from . import log
from .errors import NoClient, RunnerError

WHEELS_VARIABLE = "TAO_RUN_WHEELS"
_PIP_OPTIONS = (
    "--quiet",
    "--no-input",
    "--disable-pip-version-check",
    "--no-warn-script-location",
    "--only-binary=:all:",
    "--retries=1",
    "--timeout=15",
)


class Packages:
    """Makes packages importable for this process alone, in a directory that ends with the job."""

    def __init__(self, env: Mapping[str, str], mount: Optional[str] = None) -> None:
        self._wheel_dirs = [Path(env[WHEELS_VARIABLE])] if env.get(WHEELS_VARIABLE) else []
        if mount:
            self._wheel_dirs.append(Path(mount) / ".tao-run" / "wheels")
        self._directories: List[Path] = []
        self.failures: List[str] = []

    def find(self, module: str, requirement: str) -> bool:
        """Whether `module` can be imported now: from the image, a staged wheel, or installed for this job."""
        return self.present(module) or self._from_wheels(module) or self._install(module, requirement)

    def require(self, module: str, requirement: str, purpose: str) -> None:
        """Like `find`. Raises NoClient, with everything that was tried."""
        if not self.find(module, requirement):
            raise self.error(f"{purpose} needs the Python package {requirement}")

    def error(self, message: str) -> RunnerError:
        """The error that lists what was tried."""
        tried = "; ".join(self.failures)
        return NoClient(
            f"{message}: {tried}" if tried else message,
            f"put it into the image, give the job network access, or lay its wheel into ${WHEELS_VARIABLE}"
            " or <mount>/.tao-run/wheels",
        )

    def present(self, module: str) -> bool:
        """Whether the image has it, and it works."""
        try:
            importlib.import_module(module)
        except ImportError:
            return False
        return True

    def _from_wheels(self, module: str) -> bool:
        wheels = [path for folder in self._wheel_dirs for path in sorted(folder.glob("*.whl"), reverse=True)]
        ours = [path for path in wheels if path.name.lower().replace("-", "_").startswith(f"{module}_")]
        others = [path for path in wheels if path not in ours]
        return any(self._try_wheel(module, wheel, others) for wheel in ours)

    def _try_wheel(self, module: str, wheel: Path, others: List[Path]) -> bool:
        directory = self._new_directory()
        try:
            for path in [wheel, *others]:
                with zipfile.ZipFile(path) as archive:
                    archive.extractall(directory)
        except (OSError, zipfile.BadZipFile) as error:
            self.failures.append(f"{wheel.name}: {error}")
            return self._give_up(directory)
        if self._usable(module, directory):
            log.say(f"{module}: from the staged wheel {wheel.name}")
            return True
        self.failures.append(f"{wheel.name} does not work with Python {sys.version_info[0]}.{sys.version_info[1]} here")
        return self._give_up(directory)

    def _install(self, module: str, requirement: str) -> bool:
        started = time.monotonic()
        directory = self._new_directory()
        command = [sys.executable, "-m", "pip", "install", *_PIP_OPTIONS, "--target", str(directory), requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode == 0 and self._usable(module, directory):
            log.say(f"{module}: installed for this job alone in {log.time_text(time.monotonic() - started)}")
            return True
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        self.failures.append(f"pip install {requirement} failed ({lines[-1].strip()})")
        return self._give_up(directory)

    def _new_directory(self) -> Path:
        directory = Path(tempfile.mkdtemp(prefix="tao-run-packages-"))
        self._directories.append(directory)
        return directory

    def _usable(self, module: str, directory: Path) -> bool:
        sys.path.append(str(directory))  # behind the image's own packages, which are not replaced
        importlib.invalidate_caches()
        return self.present(module)

    def _give_up(self, directory: Path) -> bool:
        if str(directory) in sys.path:
            sys.path.remove(str(directory))
        return False

    def close(self) -> None:
        """Remove what was installed."""
        for directory in self._directories:
            shutil.rmtree(directory, ignore_errors=True)
