"""Unpacks input archives beside themselves, safely: nothing leaves the directory, and half is never whole."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from typing import Any, Callable, List, Optional, Tuple

from . import log
from .errors import InputError
from .uris import confined

_ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")
Member = Tuple[str, Any, Callable[[], Any]]


def stem(name: str) -> Optional[str]:
    """The name of an archive without its ending, or None if it is not one."""
    lower = name.lower()
    for ending in _ENDINGS:
        if lower.endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return None


class Unpacker:
    """Unpacks each archive once; `state` keeps a marker per archive, `scratch` is on the same file system."""

    def __init__(self, state: str, scratch: str) -> None:
        self._state, self._scratch = state, scratch

    def unpack(self, path: str, to_parent: bool = False) -> str:
        """Unpack `path` into a directory named after it, or into its parent; returns that directory.

        An archive whose members all lie in one directory of its own name does not get a second one around it.
        Raises InputError for an archive that is damaged or would write elsewhere.
        """
        parent, name = os.path.split(path)
        target = parent if to_parent else os.path.join(parent, stem(name) or name)
        marker = os.path.join(self._state, hashlib.sha256(os.fsencode(path)).hexdigest()[:32])
        found = os.stat(path)
        mark = [path, found.st_size, found.st_mtime_ns, target]
        if _read(marker) == mark and os.path.isdir(target):
            return target
        fresh = os.path.join(self._scratch, f"unpack-{os.path.basename(marker)}")
        shutil.rmtree(fresh, ignore_errors=True)
        count = self._into(path, fresh, strip="" if to_parent else os.path.basename(target))
        merge(fresh, target)
        os.makedirs(self._state, exist_ok=True)
        with open(marker, "w", encoding="utf-8") as file:
            json.dump(mark, file)
        log.say(f"unpacked {name}: {log.plural(count, 'file')} into {target}")
        return target

    def _into(self, path: str, folder: str, strip: str) -> int:
        try:
            if zipfile.is_zipfile(path) and not tarfile.is_tarfile(path):
                with zipfile.ZipFile(path) as archive:
                    return _write_members(_zip_members(archive), folder, strip)
            with tarfile.open(path) as tar:
                return _write_members(_tar_members(tar), folder, strip)
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise InputError(f"{path} is not a sound archive: {error}", "upload it again") from None
        except OSError as error:
            raise InputError(f"cannot unpack {path}: {error.strerror or error}", "check space and rights") from None


def _tar_members(tar: tarfile.TarFile) -> List[Member]:
    """Directories and plain files. Links and devices are left out: they can point anywhere."""
    members: List[Member] = []
    links = 0
    for item in tar.getmembers():
        if item.isdir():
            members.append((item.name, None, lambda: None))
        elif item.isfile():
            members.append((item.name, item.mode, lambda item=item: tar.extractfile(item)))  # type: ignore[misc]
        else:
            links += 1
    if links:
        log.warn(f"{log.plural(links, 'link or device')} in {tar.name!s} left out")
    return members


def _zip_members(archive: zipfile.ZipFile) -> List[Member]:
    members: List[Member] = []
    for item in archive.infolist():
        mode = item.external_attr >> 16
        if item.is_dir():
            members.append((item.filename, None, lambda: None))
        elif not stat.S_ISLNK(mode):
            members.append((item.filename, mode, lambda item=item: archive.open(item)))  # type: ignore[misc]
    return members


def _write_members(members: List[Member], folder: str, strip: str) -> int:
    named = [(confined(name.replace("\\", "/") if "/" not in name else name), *rest) for name, *rest in members]
    if strip and named and all(name.split("/")[0] == strip for name, *_ in named):
        named = [(posixpath.relpath(name, strip), *rest) for name, *rest in named]
    count = 0
    os.makedirs(folder, exist_ok=True)
    for name, mode, opener in named:
        path = os.path.join(folder, name)
        if mode is None:
            os.makedirs(path, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with opener() as source, open(path, "wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        if mode & 0o111:
            os.chmod(path, 0o755)
        count += 1
    return count


def merge(source: str, target: str) -> None:
    """Move a finished tree to its place, over what an earlier version left there."""
    if not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(source, target)
        return
    for folder, _, files in os.walk(source):
        into = os.path.normpath(os.path.join(target, os.path.relpath(folder, source)))
        os.makedirs(into, exist_ok=True)
        for name in files:
            os.replace(os.path.join(folder, name), os.path.join(into, name))
    shutil.rmtree(source, ignore_errors=True)


def _read(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None
