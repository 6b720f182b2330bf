"""Paths of data as users write them: s3:// objects, files on this or another machine, and the usual mistakes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tao_run.errors import UsageError

# What a job's runner fetches by itself and this machine does not look into.
S3, FILE = "s3", "file"
FETCHED = ("hf_model", "hf_dataset", "ngc")
_MOUNT_SCHEMES = ("file", "lustre")
# Schemes people write for an object store, by what they should be.
_MEANT_S3 = ("lepton", "aws", "s3a", "s3n", "minio", "slurm")
_OTHER_STORES = ("gs", "gcs", "azure", "az", "abfs", "abfss", "wasb", "wasbs", "swiftstack")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+._-]*):(//?)")
_BUCKET = re.compile(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
# https://bucket.s3.region.amazonaws.com/key and https://s3.region.amazonaws.com/bucket/key
_AWS_HOST = re.compile(r"^https?://(?:([a-z0-9.-]+)\.)?s3[.-](?:[a-z0-9-]+\.)?amazonaws\.com/(.*)$")


@dataclass(frozen=True)
class Location:
    """Where data lies. `scheme` is s3, file (any absolute path) one of FETCHED, or http(s).

    For s3: `bucket` and `key` as written, so a trailing slash means: only what is below. For file: `path`.
    """

    text: str
    scheme: str
    bucket: str = ""
    key: str = ""
    path: str = ""

    @property
    def is_s3(self) -> bool:
        """Whether it is an object or prefix in an S3-compatible store."""
        return self.scheme == S3

    @property
    def is_file(self) -> bool:
        """Whether it is a path of some machine's file system."""
        return self.scheme == FILE


def parse_location(text: str) -> Location:
    """A location from a URI or an absolute path.

    Raises:
        UsageError: a scheme that is none, a bad bucket name, a relative path; the hint has the right form.
    """
    match = _SCHEME.match(text)
    if match is None:
        return _path(text, text)
    scheme = match.group(1).lower()
    rest = text[match.end() :]
    if scheme == S3 and match.group(2) == "//":
        return _s3(text, rest)
    if scheme in _MOUNT_SCHEMES:
        return _path(text, "/" + rest.lstrip("/"))
    if scheme in ("http", "https"):
        return _http(text, scheme)
    if scheme in FETCHED:
        return Location(text, scheme)
    raise _wrong_scheme(text, scheme, rest)


def join(base: str, *parts: str) -> str:
    """`base` and parts with exactly one slash between them, whatever slashes they came with."""
    return "/".join([base.rstrip("/"), *(part.strip("/") for part in parts if part.strip("/"))])


def single_slashes(text: str) -> str:
    """`text` without doubled slashes after its scheme: `s3://b//a/` -> `s3://b/a/`."""
    match = _SCHEME.match(text)
    head = text[: match.end()] if match else ""
    return head + re.sub(r"/{2,}", "/", text[len(head) :])


def _s3(text: str, rest: str) -> Location:
    bucket, _, key = rest.partition("/")
    if not _BUCKET.match(bucket):
        raise UsageError(
            f"{text} does not name a bucket" if not bucket else f"{bucket!r} in {text} is not a bucket name",
            "write s3://bucket-name/path (3 to 63 small letters, digits, hyphens and dots)",
        )
    return Location(text, S3, bucket=bucket, key=key)


def _path(text: str, path: str) -> Location:
    if not path.startswith("/"):
        raise UsageError(
            f"{text!r} is neither a URI nor an absolute path",
            f"write s3://bucket/{path} or the absolute path as the job will see it",
        )
    return Location(text, FILE, path=path)


def _http(text: str, scheme: str) -> Location:
    match = _AWS_HOST.match(text)
    if match:
        right = "/".join(part for part in match.groups() if part)
        raise UsageError(f"{text} is the web address of an S3 object", f"write s3://{right}")
    return Location(text, scheme)


def _wrong_scheme(text: str, scheme: str, rest: str) -> UsageError:
    path = rest.lstrip("/")
    if scheme in (S3, *_MEANT_S3):
        return UsageError(
            f"{text}: object storage is s3:// on every platform, not {scheme}:{'/' if scheme == S3 else '//'}",
            f"write s3://{path}",
        )
    if scheme in _OTHER_STORES:
        return UsageError(
            f"{text}: {scheme}:// is not supported",
            "use the store's S3-compatible endpoint: s3:// and S3_ENDPOINT_URL",
        )
    return UsageError(
        f"{text}: unknown scheme {scheme}://",
        "use s3://bucket/path, an absolute path, file:///path, hf_model://, hf_dataset:// or ngc://",
    )
