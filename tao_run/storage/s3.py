"""Looks into S3-compatible stores from this host: what exists, what is refused, whether results can be written."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tao_run.errors import (
    BackendFault,
    BackendUnreachable,
    CredentialRefused,
    NotInstalled,
    PermissionRefused,
    ProtocolError,
    RateLimited,
    TaoRunError,
    UsageError,
)
from tao_run.redact import redact
from tao_run.storage.uris import Location

if TYPE_CHECKING:
    from tao_run.credentials import Credentials

REQUIRED = ("ACCESS_KEY", "SECRET_KEY")
INSTALL = "pip install 'boto3>=1.36,<2'"
DEFAULT_REGION = "us-east-1"
# Error codes of the S3 API reference ("List of error codes"), by what they mean to a user.
_BAD_CREDENTIAL = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "AuthorizationHeaderMalformed",
    "RequestTimeTooSkewed",
    "UnrecognizedClientException",
    "401",
}
_REFUSED = {"AccessDenied", "AllAccessDisabled", "AccountProblem", "403"}
_ABSENT = {"NoSuchKey", "NoSuchBucket", "NotFound", "404"}
_SLOW = {"SlowDown", "TooManyRequests", "RequestLimitExceeded", "429", "503"}
_ELSEWHERE = {"PermanentRedirect", "301", "IllegalLocationConstraintException"}


@dataclass(frozen=True)
class Found:
    """What is at a location. `kind` is object, prefix, bucket or absent; `detail` says more for people."""

    kind: str
    detail: str = ""
    size: int | None = None

    @property
    def exists(self) -> bool:
        """Whether there is anything."""
        return self.kind != "absent"


class S3Store:
    """One S3-compatible store with the user's keys. Nothing is contacted until a method is called.

    `timeout` is in seconds for each connection and each read.
    """

    def __init__(self, credentials: Credentials, timeout: float = 15.0) -> None:
        self._credentials = credentials
        self._timeout = timeout
        self._made: Any = None

    @property
    def endpoint(self) -> str:
        """The endpoint in words, for messages."""
        return self._credentials.setting("S3_ENDPOINT_URL") or "AWS S3"

    def find(self, location: Location) -> Found:
        """What is exactly at `location`: the object, or a prefix that ends at a slash; never a longer name.

        Raises:
            CredentialError: the keys are missing, refused, or may not look there: refused is not absent.
            BackendUnreachable: the store does not answer.
        """
        client = self._client()
        with self._errors(location):
            if location.key and not location.key.endswith("/"):
                head = self._head(client, location)
                if head is not None:
                    return Found("object", size=int(head["ContentLength"]))
            return self._prefix(client, location)

    def read_sample(self, location: Location) -> str:
        """Prove that data can be read: one byte of the object, or of the first object below the prefix.

        Returns what was read, in words. Raises as `find` does.
        """
        client = self._client()
        key = location.key
        with self._errors(location):
            if not key or key.endswith("/") or self._head(client, location) is None:
                prefix = f"{key.rstrip('/')}/" if key else ""
                first = client.list_objects_v2(Bucket=location.bucket, Prefix=prefix, MaxKeys=1)
                if not first.get("Contents"):
                    return "empty"
                key = first["Contents"][0]["Key"]
            body = client.get_object(Bucket=location.bucket, Key=key, Range="bytes=0-0")["Body"]
            body.read()
        return f"s3://{location.bucket}/{key}"

    def read(self, location: Location, limit: int) -> bytes | None:
        """The whole object if it has at most `limit` bytes, else None. Raises as `find` does."""
        client = self._client()
        with self._errors(location):
            answer = client.get_object(Bucket=location.bucket, Key=location.key)
            if answer["ContentLength"] > limit:
                answer["Body"].close()
                return None
            data: bytes = answer["Body"].read()
            return data

    def list(self, location: Location) -> Iterator[str]:
        """URIs directly below `location`; those of deeper levels end in a slash. A single object lists itself."""
        client = self._client()
        root = f"s3://{location.bucket}/"
        prefix = f"{location.key.rstrip('/')}/" if location.key else ""
        with self._errors(location):
            if prefix and not location.key.endswith("/") and self._head(client, location) is not None:
                yield root + location.key
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=location.bucket, Prefix=prefix, Delimiter="/"
            )
            for page in pages:
                names = [entry["Prefix"] for entry in page.get("CommonPrefixes", ())]
                names += [entry["Key"] for entry in page.get("Contents", ()) if entry["Key"] != prefix]
                yield from (root + name for name in sorted(names))

    def walk(self, location: Location) -> Iterator[tuple[str, int | None]]:
        """Key below `location` and size in bytes of every object there, in key order."""
        client = self._client()
        prefix = f"{location.key.rstrip('/')}/" if location.key else ""
        with self._errors(location):
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=location.bucket, Prefix=prefix)
            for page in pages:
                for entry in page.get("Contents", ()):
                    if not entry["Key"].endswith("/"):
                        yield entry["Key"][len(prefix) :], entry["Size"]

    def fetch(self, location: Location, name: str, path: Path) -> None:
        """Download the object `name` below `location` into a file, in parts when it is large."""
        client = self._client()
        key = f"{location.key.rstrip('/')}/{name}" if location.key else name
        with self._errors(location):
            client.download_file(location.bucket, key, str(path))

    def probe_write(self, location: Location) -> str:
        """Write a small object below `location`, read it back, delete it; returns a remark or nothing.

        Raises:
            PermissionRefused: writing is not allowed.
            ProtocolError: the store keeps something else than was sent (checksum framing).
        """
        client = self._client()
        key = "/".join(part for part in (location.key.rstrip("/"), f".tao-run-probe-{secrets.token_hex(8)}") if part)
        sent = b"tao-run writes this to see whether results can be stored\n"
        with self._errors(location):
            client.put_object(Bucket=location.bucket, Key=key, Body=sent)
            try:
                stored = client.get_object(Bucket=location.bucket, Key=key)["Body"].read()
            finally:
                remark = self._remove(client, location.bucket, key)
        if stored != sent:
            raise ProtocolError(
                f"{self.endpoint} stored {len(stored)} bytes where {len(sent)} were sent",
                "the store does not understand the client's checksums; update it or its gateway",
            )
        return remark

    def _remove(self, client: Any, bucket: str, key: str) -> str:
        from botocore.exceptions import ClientError

        try:
            client.delete_object(Bucket=bucket, Key=key)
        except ClientError as error:
            return f"s3://{bucket}/{key} could not be deleted again ({error.response['Error']['Code']})"
        return ""

    def _head(self, client: Any, location: Location) -> Any:
        """The object's head, or None if it is not there. A bare 403 is asked again with a listing, which says why."""
        from botocore.exceptions import ClientError

        try:
            return client.head_object(Bucket=location.bucket, Key=location.key)
        except ClientError as error:
            code = str(error.response["Error"]["Code"])
            if code in _ABSENT:
                return None
            if code in ("403", "400"):
                client.list_objects_v2(Bucket=location.bucket, Prefix=location.key, MaxKeys=1)
            raise

    def _prefix(self, client: Any, location: Location) -> Found:
        from botocore.exceptions import ClientError

        prefix = f"{location.key.rstrip('/')}/" if location.key else ""
        try:
            answer = client.list_objects_v2(Bucket=location.bucket, Prefix=prefix, MaxKeys=1)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchBucket":
                return Found("absent", f"there is no bucket {location.bucket}")
            raise
        if not prefix:
            return Found("bucket")
        return Found("prefix") if answer.get("KeyCount") else Found("absent", self._near(client, location))

    def _near(self, client: Any, location: Location) -> str:
        """A name that only begins like the one asked for: worth saying, and no proof of anything."""
        stem = location.key.rstrip("/")
        answer = client.list_objects_v2(Bucket=location.bucket, Prefix=stem, MaxKeys=1)
        for entry in answer.get("Contents", ()):
            return f"there is only s3://{location.bucket}/{entry['Key']}"
        return "there is no such object and nothing below it"

    def _client(self) -> Any:
        if self._made is None:
            self._credentials.require(REQUIRED, "s3:// storage")
            self._made = _make_client(self._credentials, self._timeout)
        return self._made

    @contextmanager
    def _errors(self, location: Location) -> Iterator[None]:
        """botocore's exceptions as ours, with no secret in them."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            raise self._of_answer(error, location) from None
        except BotoCoreError as error:
            raise self._of_transport(error) from None

    def _of_answer(self, error: Any, location: Location) -> TaoRunError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        where = f"s3://{location.bucket}"
        if code in _BAD_CREDENTIAL:
            return CredentialRefused(
                f"{self.endpoint} does not accept ACCESS_KEY and SECRET_KEY ({code})",
                "check both keys, S3_ENDPOINT_URL and CLOUD_REGION (and this machine's clock)",
            )
        if code in _REFUSED or status == 403:
            return PermissionRefused(
                f"access to {location.text} is refused ({error.operation_name}: {code})",
                f"ask for read and list permission on {where}, or check the keys",
            )
        if code in _ABSENT:
            return UsageError(f"there is no {location.text} at {self.endpoint} ({code})", "check the bucket and path")
        if code in _ELSEWHERE:
            return UsageError(f"{where} is in another region", "set CLOUD_REGION to the bucket's region")
        if code in _SLOW:
            return RateLimited(f"{self.endpoint} asks to slow down ({code})", "try again in a minute")
        text = redact(f"{self.endpoint} answered {status} {code} to {error.operation_name}")
        return BackendFault(text, "try again; if it stays, ask who runs the store")

    def _of_transport(self, error: Exception) -> TaoRunError:
        """No answer, or one that is no S3. A wrong name in a request never gets here: buckets are checked before."""
        from botocore.exceptions import ConnectionError as NoConnection
        from botocore.exceptions import HTTPClientError

        if isinstance(error, (NoConnection, HTTPClientError)):
            return BackendUnreachable(
                f"{self.endpoint} does not answer ({type(error).__name__})",
                "check S3_ENDPOINT_URL, the network and the proxy",
            )
        return ProtocolError(redact(f"{self.endpoint}: {' '.join(str(error).split())}"), "check S3_ENDPOINT_URL")


def _make_client(credentials: Credentials, timeout: float) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise NotInstalled("s3:// needs boto3, which is not installed", INSTALL) from None
    endpoint = credentials.setting("S3_ENDPOINT_URL")
    # boto3 1.36 and later add checksums that S3-compatible servers refuse or store as part of the object.
    checksums: Literal["when_required", "when_supported"] = "when_required" if endpoint else "when_supported"
    config = Config(
        connect_timeout=timeout,
        read_timeout=timeout,
        retries={"mode": "standard", "total_max_attempts": 2},
        signature_version="s3v4",
        s3={"addressing_style": "path" if endpoint else "auto"},
        max_pool_connections=32,
        request_checksum_calculation=checksums,
        response_checksum_validation=checksums,
    )
    session = boto3.session.Session(
        aws_access_key_id=credentials.value("ACCESS_KEY"),
        aws_secret_access_key=credentials.value("SECRET_KEY"),
        aws_session_token=credentials.setting("AWS_SESSION_TOKEN") or None,
        region_name=credentials.setting("CLOUD_REGION", DEFAULT_REGION),
    )
    try:
        return session.client("s3", endpoint_url=endpoint or None, config=config)
    except ValueError:
        raise UsageError(
            f"S3_ENDPOINT_URL {endpoint!r} is not a URL", "write it with its scheme: https://host:port"
        ) from None
