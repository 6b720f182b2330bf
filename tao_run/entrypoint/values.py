"""Makes plain data of what Python users put into specs and arguments."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from pathlib import PurePath
from typing import Any

from tao_run.errors import UsageError


def plain(value: Any, where: str, _above: tuple[int, ...] = ()) -> Any:
    """`value` as text, numbers, lists and mappings: numpy values, enums, paths, dates and tuples are converted.

    Raises UsageError for what has no plain form, and for data that contains itself; `where` names it.
    """
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return plain(value.value, where, _above)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if id(value) in _above:
        raise UsageError(f"{where} contains itself")
    above = (*_above, id(value))
    if isinstance(value, Mapping):
        return {_key(key, where): plain(item, f"{where}.{key}", above) for key, item in value.items()}
    if isinstance(value, (Sequence, Set)) and not isinstance(value, (bytes, bytearray)):
        return [plain(item, f"{where}[{index}]", above) for index, item in enumerate(value)]
    if hasattr(value, "tolist"):  # numpy arrays and scalars, without importing numpy
        return plain(value.tolist(), where, above)
    raise UsageError(f"{where} is a {type(value).__name__}, which a spec cannot hold", "use text, numbers, lists, maps")


def _key(key: Any, where: str) -> Any:
    key = plain(key, where)
    if key is None or isinstance(key, (bool, int, float, str)):
        return key
    raise UsageError(f"{where} has a key that is a {type(key).__name__}", "use text")
