"""The object store through boto3: where obstore has no wheel and the image brings boto3."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional, Tuple

from ..errors import StoreError, Transient
from .base import CHUNK, WRITE_PART, ObjectInfo, ObjectStore, Settings, part_size, require_file

_CONNECTIONS = 64
_PARTS_AT_ONCE = 4


class BotoClient(ObjectStore):
    """Speaks S3 through boto3."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        import boto3
        from botocore import UNSIGNED
        from botocore.config import Config

        options: Dict[str, Any] = {}
        if settings.endpoint and _knows_checksum_options(Config):
            # boto3 1.36 and later add checksums that other stores refuse, or keep as part of the object.
            options = {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
        if settings.anonymous:
            options["signature_version"] = UNSIGNED
        config = Config(
            max_pool_connections=_CONNECTIONS,
            connect_timeout=10,
            read_timeout=60,
            retries={"mode": "standard", "total_max_attempts": 5},
            s3={"addressing_style": "path" if settings.endpoint else "auto"},
            **options,
        )
        self._client = boto3.session.Session(
            aws_access_key_id=settings.access_key or None,
            aws_secret_access_key=settings.secret_key or None,
            aws_session_token=settings.session_token or None,
            region_name=settings.region,
        ).client("s3", endpoint_url=settings.endpoint or None, config=config)
        self.name = f"boto3 {boto3.__version__}"

    def list(self, bucket: str, prefix: str) -> Iterator[ObjectInfo]:
        below = f"{prefix}/" if prefix else ""
        with self._errors(bucket, "list"):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=below):
                for entry in page.get("Contents", ()):
                    # a key that ends in a slash is the empty object by which some tools mark a folder
                    if not entry["Key"].endswith("/"):
                        yield ObjectInfo(entry["Key"], entry["Size"], entry["ETag"].strip('"'))

    def head(self, bucket: str, key: str) -> Optional[ObjectInfo]:
        from botocore.exceptions import ClientError

        try:
            with self._errors(bucket, "read", pass_through=("404", "403", "400")):
                entry = self._client.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] == "404":
                return None
            self._ask_why(bucket, key)
            raise self._explain(bucket, error, "read") from None
        return ObjectInfo(key, entry["ContentLength"], entry["ETag"].strip('"'))

    def _ask_why(self, bucket: str, key: str) -> None:
        """An answer to HEAD has no body: a listing, refused for the same reason, says the reason."""
        with self._errors(bucket, "list"):
            self._client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)

    def read(self, bucket: str, key: str, length: int) -> Tuple[Any, str]:
        with self._errors(bucket, "read"):
            answer = self._client.get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{length - 1}")
            return answer["Body"].read(), answer["ETag"].strip('"')

    def stream(self, bucket: str, key: str, start: int, length: int, etag: str) -> Iterator[Any]:
        wanted = {"Range": f"bytes={start}-{start + length - 1}", "IfMatch": f'"{etag}"'}
        with self._errors(bucket, "read"):
            yield from self._client.get_object(Bucket=bucket, Key=key, **wanted)["Body"].iter_chunks(CHUNK)

    def write(self, bucket: str, key: str, data: bytes) -> None:
        with self._errors(bucket, "write to"):
            self._client.put_object(Bucket=bucket, Key=key, Body=data)

    def write_file(self, bucket: str, key: str, path: str, size: int) -> None:
        from boto3.s3.transfer import TransferConfig

        require_file(path)
        config = TransferConfig(
            multipart_threshold=WRITE_PART, multipart_chunksize=part_size(size), max_concurrency=_PARTS_AT_ONCE
        )
        with self._errors(bucket, "write to"):
            self._client.upload_file(path, bucket, key, Config=config)

    @contextmanager
    def _errors(self, bucket: str, action: str, pass_through: Tuple[str, ...] = ()) -> Iterator[None]:
        """botocore's exceptions as ours."""
        from boto3.exceptions import S3UploadFailedError
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
        from botocore.exceptions import ConnectionError as NoConnection

        try:
            yield
        except ClientError as error:
            if error.response["Error"]["Code"] in pass_through:
                raise
            raise self._explain(bucket, error, action) from None
        except S3UploadFailedError as error:
            cause = error.__context__
            known = isinstance(cause, ClientError)
            raise (self._explain(bucket, cause, action) if known else Transient(str(error))) from None
        except (HTTPClientError, NoConnection) as error:
            raise self.unreachable(type(error).__name__) from None
        except IncompleteReadError as error:
            raise Transient(f"the connection broke while s3://{bucket} was read ({error})") from None
        except BotoCoreError as error:
            raise StoreError(f"cannot {action} s3://{bucket}: {error}") from None

    def _explain(self, bucket: str, error: Any, action: str) -> StoreError:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = error.response["Error"]["Code"]
        return self.explain(bucket, "" if code.isdecimal() else code, int(status), action)


def _knows_checksum_options(config_class: Any) -> bool:
    return "request_checksum_calculation" in config_class.OPTION_DEFAULTS
