"""Annotation files: records have the fields a model needs, and there are enough of them for the batch size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tao_run.errors import UsageError
from tao_run.jobs.model import Check
from tao_run.storage.s3 import S3Store
from tao_run.storage.uris import parse_location

#: a larger file is not read for a check
MOST_BYTES = 256 * 1024 * 1024
_RECORD_KEYS = ("annotations", "data", "samples", "items")
_SHOWN = 5


def check_fields(label: str, records: Sequence[Any], fields: Sequence[str], limit: int) -> Check:
    """The first `limit` records are objects that have every field."""
    check_id = f"json.{label}"
    sample = records[: max(limit, 1)]
    faults = [text for number, record in enumerate(sample) if (text := _fault(number, record, fields))]
    if faults:
        more = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
        return Check(
            check_id, "failed", "; ".join(faults[:_SHOWN]) + more, "repair the annotation file, or name another"
        )
    return Check(check_id, "ok", f"{len(sample)} of {len(records)} records looked at, each has {', '.join(fields)}")


def check_batch(label: str, count: int, batch: int, shards: int) -> Check:
    """A shard holds at least one batch."""
    most = count / shards
    detail = f"{count} records over {shards} shards make {most:g} per shard, the batch size is {batch}"
    if batch <= most:
        return Check(f"batch.{label}", "ok", detail)
    return Check(f"batch.{label}", "failed", detail, f"lower the batch size to {int(most)}, or use fewer shards")


def read_records(label: str, uri: str, store: S3Store, here: bool) -> list[Any] | Check:
    """The records of a JSON or JSONL file, or a check that says why they are not read.

    `here` says whether paths of the job are paths of this machine.

    Raises:
        UsageError: no such file, not JSON, or no records in it.
        CredentialError, BackendUnreachable: the store refuses or does not answer.
    """
    location = parse_location(uri)
    if location.is_s3:
        data = store.read(location, MOST_BYTES)
    elif location.is_file and here:
        data = _read_file(Path(location.path))
    else:
        return Check(f"json.{label}", "skipped", f"{uri} cannot be read from this machine")
    if data is None:
        return Check(f"json.{label}", "skipped", f"{uri} is larger than {MOST_BYTES >> 20} MiB")
    return records_of(data, uri)


def records_of(data: bytes, name: str) -> list[Any]:
    """The records of a file's bytes: a list, the list under a usual key, JSON lines, or the one object itself."""
    try:
        if name.lower().endswith(".jsonl"):
            found: Any = [json.loads(line) for line in data.splitlines() if line.strip()]
        else:
            found = json.loads(data)
    except ValueError as error:
        raise UsageError(f"{name} is not JSON: {error}", "check the file") from None
    if isinstance(found, dict):
        found = next((found[key] for key in _RECORD_KEYS if isinstance(found.get(key), list)), [found])
    if not isinstance(found, list) or not found:
        raise UsageError(f"{name} holds no records", "check the file")
    return found


def _read_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "check the path") from None


def _fault(number: int, record: Any, fields: Sequence[str]) -> str:
    if not isinstance(record, dict):
        return f"record {number} is not an object"
    absent = [field for field in fields if field not in record]
    return f"record {number} lacks {', '.join(absent)}" if absent else ""
