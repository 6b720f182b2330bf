"""Stages the inputs of a plan and puts their local paths where the command looks for them."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import keys, log, selective
from .archives import Unpacker, stem
from .errors import Absent, InputError
from .hub import Hubs
from .packages import Packages
from .plan import Input
from .stage import Moved, Stage
from .uris import FILE, HUBS, Uri, parse, scheme_of

REMOVE = object()  # what an optional input becomes that is not there


class Fetcher:
    """Turns one URI into a local path: what is there decides whether it is a file or a folder."""

    def __init__(self, stage: Stage, hubs: Hubs, packages: Packages, asks_store: bool) -> None:
        self._stage, self._hubs, self._packages = stage, hubs, packages
        self._asks_store = asks_store

    def local_path(self, text: str, declared: Input, annotation: Optional[str]) -> Tuple[str, Moved]:
        """Where the input is now. Raises Absent, InputError, StoreError, Stopped."""
        uri = parse(text)
        if uri.scheme == FILE:
            return self._file(uri)
        if uri.scheme in HUBS:
            return self._hubs.fetch(uri)
        return self._object(uri, declared, annotation)

    def _file(self, uri: Uri) -> Tuple[str, Moved]:
        path = "/" + uri.key.lstrip("/")
        if not os.path.exists(path):
            raise Absent(f"{path} is not there", "it must exist inside the job's container or mount")
        return path, Moved()

    def _object(self, uri: Uri, declared: Input, annotation: Optional[str]) -> Tuple[str, Moved]:
        path = self._stage.local(uri.bucket, uri.key.rstrip("/"))
        unverified = None if self._asks_store else self._stage.unverified(uri)
        if unverified:
            log.warn(f"{uri.text}: there are no S3 keys to ask with, the copy on the mount is used as it is")
            return self._unpacked(path, [path], declared), Moved(paths=[path])
        if annotation is not None and declared.selective is not None:
            return path, self._selected(uri, path, declared, annotation)
        is_glob = declared.type == "local_glob" and any(mark in uri.key for mark in "*?[")
        infos = self._stage.find_glob(uri) if is_glob else self._stage.find(uri)
        moved = self._stage.bring(uri, infos)
        return self._unpacked(path, moved.paths, declared), moved

    def _selected(self, uri: Uri, path: str, declared: Input, annotation: str) -> Moved:
        assert declared.selective is not None
        folder = uri.key.rstrip("/")
        names = selective.references(annotation, declared.selective.keys, declared.selective.format, self._packages)
        wanted = selective.keys_below(folder, names, path)
        log.say(f"{uri.text}: the annotation names {log.plural(len(wanted), 'file')}")
        moved = self._stage.bring(uri, self._stage.find_keys(uri.bucket, wanted))
        os.makedirs(path, exist_ok=True)
        return moved

    def _unpacked(self, path: str, paths: List[str], declared: Input) -> str:
        """Unpack archives: a single one takes the place of the input, those in a folder go beside themselves."""
        if declared.place and stem(declared.place):
            return path  # wanted under the name of an archive: as it is
        archives = [each for each in paths if stem(os.path.basename(each))]
        if not archives:
            return path
        unpacker = Unpacker(os.path.join(self._stage.state, "unpacked"), self._stage.scratch())
        with self._stage.locked(f"unpack {path}"):
            folders = [unpacker.unpack(each, declared.extract_to_parent) for each in archives]
        return folders[0] if archives == [path] else path


class Inputs:
    """All inputs of a plan. `data` is the spec or the arguments, and is changed in place.

    `read` and `write` look up and set a declared key in `data`; `names` collects what `{name}` stands for;
    `report` has one entry per input for the job's record.
    """

    def __init__(
        self,
        declared: Tuple[Input, ...],
        fetcher: Fetcher,
        read: Callable[[str], Any],
        write: Callable[[str, Any], None],
    ) -> None:
        self._declared, self._fetcher = declared, fetcher
        self._read, self._write = read, write
        self.names: Dict[str, str] = {}
        self.report: List[Dict[str, Any]] = []

    def stage(self) -> None:
        """Bring everything, annotations before what they select. Raises RunnerError, Stopped."""
        for declared in sorted(self._declared, key=lambda item: item.selective is not None):
            self._stage_one(declared)

    def _stage_one(self, declared: Input) -> None:
        value = declared.uri if declared.uri is not None else self._read(declared.key)
        if value in (None, "", []):
            if not declared.optional:
                log.say(f"input {declared.key} has no value")
            return
        local = self._local(value, declared)
        if local is REMOVE:
            self._write(declared.key, REMOVE)
            return
        if declared.place:
            local = link(local, declared.place)
        self.names[declared.key] = self.names[declared.key.replace("-", "_")] = _as_text(local)
        if not declared.is_path:
            self._write(declared.key, local)

    def _local(self, value: Any, declared: Input) -> Any:
        if isinstance(value, list):
            found = [self._local(item, declared) for item in value]
            return [item for item in found if item is not REMOVE]
        if declared.is_path and isinstance(value, str) and value.startswith("/"):
            value = f"file://{value}"
        if not scheme_of(value):
            if declared.is_path:
                parse(str(value))  # says what is wrong with it
            return value
        started = time.monotonic()
        try:
            path, moved = self._fetcher.local_path(value, declared, self._annotation(declared))
        except Absent as error:
            if declared.optional:
                log.say(f"optional input {declared.key}: {error.message}; left out")
                return REMOVE
            raise InputError(f"input {declared.key}: {error.message}", error.hint) from None
        self.report.append(_entry(declared.key, value, path, moved, time.monotonic() - started))
        return path

    def _annotation(self, declared: Input) -> Optional[str]:
        """The local annotation file of a selective input."""
        if declared.selective is None:
            return None
        name = declared.selective.annotation
        found = name if scheme_of(name) else self.names.get(name) or self._read(name)
        if isinstance(found, str) and scheme_of(found):
            found, _ = self._fetcher.local_path(found, Input(name), None)
        if not isinstance(found, str) or not os.path.isfile(found):
            raise InputError(
                f"input {declared.key}: its annotation {name} is no file", "set it, and declare it an input"
            )
        return found


def stage_hub_uris(data: Any, fetcher: Fetcher, report: List[Dict[str, Any]], where: str = "") -> Any:
    """Nested data with every hub URI in it, declared or not, replaced by what was fetched."""
    if isinstance(data, dict):
        return {key: stage_hub_uris(value, fetcher, report, keys.joined(where, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [stage_hub_uris(value, fetcher, report, f"{where}[{i}]") for i, value in enumerate(data)]
    if scheme_of(data) in HUBS:
        started = time.monotonic()
        path, moved = fetcher.local_path(data, Input(where), None)
        report.append(_entry(where, data, path, moved, time.monotonic() - started))
        return path
    return data


def link(local: Any, place: str) -> str:
    """Make `place` lead to a staged file or folder (or to several); returns `place`. Raises InputError."""
    place_path = place.rstrip("/")
    try:
        if isinstance(local, list):
            os.makedirs(place_path, exist_ok=True)
            for path in local:
                _link_one(path, os.path.join(place_path, os.path.basename(path)))
        elif os.path.isfile(local) and (place.endswith("/") or _real_folder(place_path)):
            os.makedirs(place_path, exist_ok=True)
            _link_one(local, os.path.join(place_path, os.path.basename(local)))
        elif _real_folder(place_path) and not _removed(place_path):
            for name in os.listdir(local):
                _link_one(os.path.join(local, name), os.path.join(place_path, name))
        else:
            _link_one(local, place_path)
    except OSError as error:
        raise InputError(f"cannot put an input at {place}: {error.strerror or error}", "use another path") from None
    return place_path


def _link_one(local: str, place: str) -> None:
    if os.path.lexists(place) and os.path.realpath(place) == os.path.realpath(local):
        return
    os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
    temporary = f"{place}.{os.getpid()}.tao-run"
    os.symlink(os.path.abspath(local), temporary)
    try:
        os.replace(temporary, place)
    except OSError:
        os.unlink(temporary)
        raise


def _real_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _removed(folder: str) -> bool:
    """Whether an empty directory could be removed, to be replaced by a link. A mount point cannot."""
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _entry(key: str, uri: str, path: str, moved: Moved, seconds: float) -> Dict[str, Any]:
    return {
        "key": key,
        "uri": uri,
        "path": path,
        "files": moved.files,
        "bytes": moved.bytes,
        "fetched_files": moved.fetched_files,
        "fetched_bytes": moved.fetched_bytes,
        "seconds": round(seconds, 3),
    }
