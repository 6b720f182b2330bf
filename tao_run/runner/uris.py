"""URIs of inputs and outputs, and where they lie below a root that several jobs may share."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Any, Tuple

from .errors import InputError

S3, FILE, NGC, HF_MODEL, HF_DATASET = "s3", "file", "ngc", "hf_model", "hf_dataset"
SCHEMES = (S3, FILE, NGC, HF_MODEL, HF_DATASET)
HUBS = (NGC, HF_MODEL, HF_DATASET)
_URI = re.compile(r"([a-z][a-z0-9_+.-]*)://(.*)", re.DOTALL)


@dataclass(frozen=True)
class Uri:
    """A URI in parts: for s3, `bucket` and `key`; for all others everything after `//` is the key."""

    text: str
    scheme: str
    bucket: str
    key: str

    @property
    def is_folder(self) -> bool:
        """Whether it says by a slash at its end that it is a folder."""
        return self.key.endswith("/") or not self.key


def scheme_of(value: Any) -> str:
    """The scheme, if `value` is a URI that the runner knows, else nothing."""
    match = _URI.match(value) if isinstance(value, str) else None
    return match.group(1) if match and match.group(1) in SCHEMES else ""


def parse(text: str) -> Uri:
    """A URI that the runner can fetch. Raises InputError."""
    match = _URI.match(text)
    if match is None or match.group(1) not in SCHEMES:
        raise InputError(f"{text} cannot be fetched", f"use one of {', '.join(s + '://' for s in SCHEMES)}")
    scheme, rest = match.groups()
    if scheme != S3:
        return Uri(text, scheme, "", rest)
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise InputError(f"{text} names no bucket", "write s3://bucket/path")
    return Uri(text, S3, bucket, re.sub(r"/{2,}", "/", key.lstrip("/")))


def confined(*parts: str) -> str:
    """The parts joined into a relative path. Raises InputError if it would lead out of its root."""
    path = posixpath.join(*parts)
    if path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise InputError(f"the name {path!r} would lead out of its directory", "rename the object")
    return posixpath.normpath(path)


def bucket_path(uri: str) -> Tuple[str, str]:
    """Bucket and key of an s3:// URI, without a slash at its end."""
    parsed = parse(uri)
    return parsed.bucket, parsed.key.rstrip("/")


def join(*parts: str) -> str:
    """Parts of a key with one slash between them."""
    return "/".join(part.strip("/") for part in parts if part.strip("/"))
