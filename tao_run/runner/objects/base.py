"""What the runner needs of an object store, whoever speaks its protocol."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Tuple

from ..errors import AccessDenied, BucketAbsent, KeysRefused, StoreError, Transient, Unreachable

MIB = 1 << 20
CHUNK = MIB  # what a stream brings at a time, and all that it keeps in memory
# An object above this size is read as several streams of this size: few requests, and several at a time.
PART = 32 * MIB
# A file above this size is written in parts of this size. Each part is in memory as a whole.
WRITE_PART = 16 * MIB
_MOST_PARTS = 10_000  # S3 API reference, "Amazon S3 multipart upload limits"

_ENDPOINT = re.compile(r"https?://[^\s/?#]+/?[^\s?#]*")
# Error codes of the S3 API reference ("List of error codes").
_KEYS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "RequestTimeTooSkewed",
    "AuthorizationHeaderMalformed",
}
_NO_KEYS = "no S3 keys are set: give the job ACCESS_KEY and SECRET_KEY"
_ELSEWHERE = {"PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException"}


class ObjectInfo(NamedTuple):
    """One object as the store lists it. `etag` is without quotes."""

    key: str
    size: int
    etag: str


class Settings(NamedTuple):
    """How to reach the store. Without keys: a role of the machine at AWS, anonymously at other endpoints."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str
    session_token: str

    @property
    def anonymous(self) -> bool:
        """Whether requests go unsigned."""
        return bool(self.endpoint) and not self.access_key

    @property
    def where(self) -> str:
        """The store in words."""
        return self.endpoint or "AWS S3"


def settings_from(env: Mapping[str, str]) -> Settings:
    """The store from the variables of AWS's own tools, or from the names of TAO's credentials."""

    def first(*names: str) -> str:
        return next((env[name].strip() for name in names if env.get(name, "").strip()), "")

    return Settings(
        endpoint=first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL").rstrip("/"),
        region=first("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_REGION") or "us-east-1",
        access_key=first("AWS_ACCESS_KEY_ID", "ACCESS_KEY"),
        secret_key=first("AWS_SECRET_ACCESS_KEY", "SECRET_KEY"),
        session_token=first("AWS_SESSION_TOKEN"),
    )


class ObjectStore(ABC):
    """One S3-compatible store. Methods may be called from many threads.

    All raise StoreError: BucketAbsent, KeysRefused, AccessDenied, Unreachable, Transient.
    """

    name: str

    def __init__(self, settings: Settings) -> None:
        if settings.endpoint and not _ENDPOINT.fullmatch(settings.endpoint):
            raise StoreError(f"S3_ENDPOINT_URL {settings.endpoint!r} is not a URL", "write it like https://host:port")
        self.settings = settings

    @abstractmethod
    def list(self, bucket: str, prefix: str) -> Iterator[ObjectInfo]:
        """Every object below `prefix/` (of the whole bucket, if it is empty); never of a longer name."""

    @abstractmethod
    def head(self, bucket: str, key: str) -> Optional[ObjectInfo]:
        """One object, or None if it is not there."""

    @abstractmethod
    def read(self, bucket: str, key: str, length: int) -> Tuple[Any, str]:
        """The first `length` bytes of an object, and its ETag: for small objects, in one piece."""

    @abstractmethod
    def stream(self, bucket: str, key: str, start: int, length: int, etag: str) -> Iterator[Any]:
        """`length` bytes from `start` on, in chunks. Fails if the object has another ETag by now."""

    @abstractmethod
    def write(self, bucket: str, key: str, data: bytes) -> None:
        """Store a small object."""

    @abstractmethod
    def write_file(self, bucket: str, key: str, path: str, size: int) -> None:
        """Store a file in parts, without holding it in memory. Raises FileNotFoundError if it is gone."""

    def explain(self, bucket: str, code: str, status: int, action: str) -> StoreError:
        """The error of an answer, by S3's error code or else the HTTP status."""
        where, name = self.settings.where, f"s3://{bucket}"
        if code == "NoSuchBucket":
            return BucketAbsent(f"there is no bucket {bucket} at {where}", "check its name and S3_ENDPOINT_URL")
        if code in _KEYS or (status == 401 and code != "AccessDenied"):
            return KeysRefused(
                f"{where} does not accept the S3 keys ({code or status})",
                "check ACCESS_KEY, SECRET_KEY, S3_ENDPOINT_URL and CLOUD_REGION",
            )
        if status == 403 or code == "AccessDenied":
            fix = "check the keys' permissions" if self.settings.access_key else _NO_KEYS
            return AccessDenied(f"{where} refuses to {action} {name} ({code or status})", fix)
        if code in _ELSEWHERE or status in (301, 307):
            return StoreError(f"{name} is in another region than {self.settings.region}", "set CLOUD_REGION")
        if status >= 500 or status in (408, 412, 429) or code in ("SlowDown", "RequestTimeout"):
            return Transient(f"{where} answered {status} {code} when asked to {action} {name}".replace("  ", " "))
        return StoreError(f"{where} answered {status} {code} when asked to {action} {name}")

    def unreachable(self, detail: str) -> StoreError:
        """The error of no answer at all."""
        if not (self.settings.access_key or self.settings.endpoint):
            return KeysRefused(f"no S3 keys are set, and this machine has no role that gives any ({detail})", _NO_KEYS)
        return Unreachable(
            f"{self.settings.where} does not answer ({detail})", "check S3_ENDPOINT_URL, network and proxy"
        )


def part_size(size: int) -> int:
    """Bytes per part of an upload, so that a file never has more parts than S3 allows."""
    least = -(-size // (_MOST_PARTS - 1))
    return max(WRITE_PART, -(-least // MIB) * MIB)


def code_in(text: str) -> str:
    """The error code in an S3 answer's XML, or nothing."""
    match = re.search(r"<Code>(\w+)</Code>", text)
    return match.group(1) if match else ""


def require_file(path: str) -> None:
    """Raises FileNotFoundError if a file to be sent has gone."""
    os.stat(path)
