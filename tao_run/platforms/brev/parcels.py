"""The files of a job on their way to an instance: private on this machine, and swept if their sender died."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tao_run.platforms.lifecycle import launcher_died, launcher_identity


@contextmanager
def parcel(root: Path, name: str, files: Mapping[str, bytes]) -> Iterator[Path]:
    """A directory `name` with these files, readable by the user only, gone afterwards.

    A process that is killed meanwhile leaves it below `root` under its own identity: the next one removes it.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(root)
    with tempfile.TemporaryDirectory(prefix=_label(launcher_identity()), dir=root) as parent:
        made = Path(parent) / name
        made.mkdir(mode=0o700)
        for file, content in files.items():
            (made / file).touch(0o600)
            (made / file).write_bytes(content)
        yield made


def _label(identity: str) -> str:
    return identity.replace(":", ",") + ","  # scp takes a colon for the end of a host name


def _sweep(root: Path) -> None:
    for path in root.iterdir():
        identity = path.name.rpartition(",")[0].replace(",", ":")
        if identity.count(":") >= 2 and launcher_died(identity):
            shutil.rmtree(path, ignore_errors=True)
