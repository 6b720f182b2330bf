"""Reads from an annotation file which files of a folder it names (json, jsonl, csv, parquet)."""

from __future__ import annotations

import csv
import json
import os
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set

from .errors import InputError
from .packages import Packages

_BY_ENDING = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
_URI = re.compile(r"^[a-z0-9]+://")


def references(path: str, keys: Sequence[str], file_format: Optional[str], packages: Packages) -> List[str]:
    """All values under `keys` in an annotation file, in order, each once.

    A key is looked for at every depth; `a.b` means: `b` inside `a`. Values may be texts or lists of texts.
    Raises InputError if the file cannot be read, or holds none of the keys.
    """
    kind = file_format or _BY_ENDING.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise InputError(f"cannot tell the format of {path}", "set selective.format: json, jsonl, csv or parquet")
    wanted = [key.split(".") for key in keys]
    try:
        found = [value for record in _records(path, kind, packages) for key in wanted for value in _values(record, key)]
    except (ValueError, csv.Error, OSError) as error:
        raise InputError(f"cannot read {path} as {kind}: {error}", "check selective.format and the file") from None
    if not found:
        raise InputError(f"{path} names no file under {', '.join(keys)}", "check selective.keys")
    return list(dict.fromkeys(found))


def _records(path: str, kind: str, packages: Packages) -> Iterator[Any]:
    if kind == "parquet":
        yield from _parquet(path, packages)
        return
    with open(path, encoding="utf-8-sig", newline="" if kind == "csv" else None) as file:
        if kind == "json":
            yield json.load(file)
        elif kind == "csv":
            yield from csv.DictReader(file)
        else:
            for line in file:
                if line.strip():
                    yield json.loads(line)


def _parquet(path: str, packages: Packages) -> Iterator[Dict[str, Any]]:
    packages.require("pyarrow", "pyarrow", f"reading {path}")
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
        yield from batch.to_pylist()


def _values(data: Any, key: List[str]) -> Iterator[str]:
    """Texts under a key, at any depth."""
    if isinstance(data, list):
        for item in data:
            yield from _values(item, key)
    elif isinstance(data, dict):
        yield from _at(data, key)
        for item in data.values():
            if isinstance(item, (dict, list)):
                yield from _values(item, key)


def _at(data: Any, key: List[str]) -> Iterator[str]:
    for part in key:
        data = data.get(part) if isinstance(data, dict) else None
    for value in data if isinstance(data, list) else [data]:
        if isinstance(value, str) and value:
            yield value


def keys_below(folder: str, names: Sequence[str], local_root: str) -> Set[str]:
    """The object keys that `names` mean, below the key `folder`.

    A name may be relative to the folder, its full URI or key, or a path below `local_root`.
    Raises InputError for one that leads out of the folder.
    """
    found = set()
    for name in names:
        inner = _strip(_strip(name, local_root), folder) if not _URI.match(name) else _of_uri(name, folder)
        path = os.path.normpath(inner.lstrip("/") if inner.startswith(("./", "/")) else inner)
        if path.startswith("..") or path == ".":
            raise _outside(name)
        found.add(f"{folder}/{path}" if folder else path)
    return found


def _strip(name: str, root: str) -> str:
    return name[len(root) + 1 :] if root and name.startswith(root + "/") else name


def _of_uri(name: str, folder: str) -> str:
    key = name.split("://", 1)[1].partition("/")[2]
    if folder and not key.startswith(folder + "/"):
        raise _outside(name)
    return key[len(folder) + 1 :] if folder else key


def _outside(name: str) -> InputError:
    return InputError(f"the annotation names {name!r}, which is not below the input's folder", "correct the annotation")
