"""Results on the cluster's file system: listed and copied to this machine over the same connection."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from tao_run.errors import BackendUnreachable, UsageError
from tao_run.platforms.slurm.cluster import shell_path
from tao_run.platforms.slurm.frames import new_mark
from tao_run.platforms.slurm.remote import Remote
from tao_run.storage.tree import whole_file

_OURS = ".tao-run"  # what the runner keeps for itself beside the results
_IDLE_SECONDS = 300.0

_LIST = """\
list() {{ cd {root} && find -L . -name {ours} -prune -o -type f -printf '%s %P\\0'; }}
section list list
"""

# The mark is where the host's welcome ends and the archive begins; a second one after it says that it is whole.
_COPY = """\
{{ echo; echo {mark}; cd {root} && tar -c -h -f - --exclude=./{ours} . && echo {mark}; exit; }}
"""


def list_results(remote: Remote, root: str) -> Iterator[tuple[str, int | None]]:
    """Path below `root` and size in bytes of every file there, sorted. Nothing if there is no such directory."""
    said = remote.run(_LIST.format(root=shell_path(root), ours=_OURS))["list"]
    if said.code and "No such file" not in said.err:
        raise UsageError(f"cannot list {root} on {remote.cluster.label}: {' '.join(said.err.split())}")
    rows = (item.split(" ", 1) for item in said.out.split("\0") if " " in item)
    yield from sorted((name, int(size)) for size, name in rows)


def download_results(remote: Remote, root: str, target: Path) -> int:
    """Copy every file below `root` into `target`; returns how many. Names that would leave `target` are refused.

    A file is written under a temporary name and renamed when whole. Raises BackendUnreachable if the connection
    breaks: files that are there then are whole, and the copy can be repeated.
    """
    mark = new_mark()
    script = _COPY.format(mark=mark, root=shell_path(root), ours=_OURS)
    stream = _After(remote.stream(script, _IDLE_SECONDS), mark)
    count = 0
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:  # it only reads
            for entry in archive:
                content = archive.extractfile(entry) if entry.isfile() else None
                if content is not None:
                    with whole_file(target, entry.name) as partial, partial.open("wb") as file:
                        shutil.copyfileobj(content, file, 1024 * 1024)
                    count += 1
    except tarfile.TarError:
        raise BackendUnreachable(f"the copy of {root} broke off after {count} files", "run it again") from None
    if not stream.whole():
        raise BackendUnreachable(f"the copy of {root} broke off after {count} files", "run it again")
    return count


class _After:
    """The bytes of a stream after a mark, as a file that tarfile reads; what follows the archive is kept."""

    def __init__(self, chunks: Iterator[bytes], mark: str) -> None:
        self._chunks = chunks
        self._mark = f"\n{mark}\n".encode()
        self._buffer = b""
        while self._mark not in self._buffer and (chunk := next(self._chunks, b"")):
            self._buffer += chunk
        self._buffer = self._buffer.partition(self._mark)[2]

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size and (chunk := next(self._chunks, b"")):
            self._buffer += chunk
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def whole(self) -> bool:
        """Whether the second mark came: tar has packed everything without an error."""
        tail = self._buffer + b"".join(self._chunks)
        return tail.lstrip(b"\0").strip() == self._mark.strip()
