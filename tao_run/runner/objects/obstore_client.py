"""The object store through obstore (Rust): the fastest client that one wheel brings."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Tuple

from ..errors import StoreError
from .base import CHUNK, ObjectInfo, ObjectStore, Settings, code_in, part_size, require_file

_PARTS_AT_ONCE = 6
# For a whole request with its body: a part may take long on a slow line, a question may not.
_DATA_TIMEOUT = "300s"
_ASK_TIMEOUT = "30s"
_STATUS = re.compile(r"status code: (\d{3})")


class ObstoreClient(ObjectStore):
    """Speaks S3 through obstore."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        import obstore

        self._obstore = obstore
        self._stores: Dict[Tuple[str, str], Any] = {}
        self.name = f"obstore {getattr(obstore, '__version__', '')}".strip()

    def _bucket(self, bucket: str, timeout: str = _DATA_TIMEOUT) -> Any:
        store = self._stores.get((bucket, timeout))
        if store is None:
            store = self._stores[bucket, timeout] = self._open(bucket, timeout)
        return store

    def _open(self, bucket: str, timeout: str) -> Any:
        from obstore.store import S3Store

        settings = self.settings
        config: Any = {"region": settings.region}
        if settings.endpoint:
            config["endpoint"] = settings.endpoint
        if settings.access_key:
            config["access_key_id"] = settings.access_key
            config["secret_access_key"] = settings.secret_key
        if settings.anonymous:
            config["skip_signature"] = True
        if settings.session_token:
            config["session_token"] = settings.session_token
        return S3Store(
            bucket,
            config=config,
            client_options={
                "allow_http": settings.endpoint.startswith("http://"),
                "timeout": timeout,
                "connect_timeout": "10s",
            },
            retry_config={"max_retries": 4, "retry_timeout": timedelta(seconds=60)},
        )

    def list(self, bucket: str, prefix: str) -> Iterator[ObjectInfo]:
        with self._errors(bucket, "list"):
            for chunk in self._obstore.list(self._bucket(bucket, _ASK_TIMEOUT), prefix or None, chunk_size=1000):
                for entry in chunk:
                    # `prefix` itself is the empty object by which some tools mark a folder
                    if entry["path"] != prefix:
                        yield _info(entry)

    def head(self, bucket: str, key: str) -> Optional[ObjectInfo]:
        store = self._bucket(bucket, _ASK_TIMEOUT)
        try:
            with self._errors(bucket, "read"):
                return _info(self._obstore.head(store, key))
        except FileNotFoundError:
            return None
        except StoreError:
            self._ask_why(bucket, key)
            raise

    def _ask_why(self, bucket: str, key: str) -> None:
        """An answer to HEAD has no body: a listing, refused for the same reason, says the reason."""
        with self._errors(bucket, "list"):
            next(iter(self._obstore.list(self._bucket(bucket, _ASK_TIMEOUT), key, chunk_size=1)), None)

    def read(self, bucket: str, key: str, length: int) -> Tuple[Any, str]:
        with self._errors(bucket, "read"):
            answer = self._get(bucket, key, {"range": (0, length)})
            return answer.bytes(), (answer.meta.get("e_tag") or "").strip('"')

    def stream(self, bucket: str, key: str, start: int, length: int, etag: str) -> Iterator[Any]:
        with self._errors(bucket, "read"):
            answer = self._get(bucket, key, {"range": (start, start + length), "if_match": f'"{etag}"'})
            yield from answer.stream(min_chunk_size=CHUNK)

    def _get(self, bucket: str, key: str, options: Any) -> Any:
        try:
            return self._obstore.get(self._bucket(bucket), key, options=options)
        except FileNotFoundError as error:
            if code_in(str(error)) == "NoSuchBucket":
                raise
            raise StoreError(f"s3://{bucket}/{key} has gone while it was read", "run the job again") from None

    def write(self, bucket: str, key: str, data: bytes) -> None:
        self._put(bucket, key, data, use_multipart=False)

    def write_file(self, bucket: str, key: str, path: str, size: int) -> None:
        require_file(path)
        self._put(bucket, key, Path(path), chunk_size=part_size(size), max_concurrency=_PARTS_AT_ONCE)

    def _put(self, bucket: str, key: str, data: Any, **options: Any) -> None:
        try:
            with self._errors(bucket, "write to"):
                self._obstore.put(self._bucket(bucket), key, data, **options)
        except FileNotFoundError as error:
            if isinstance(data, Path):
                require_file(str(data))
            raise self.explain(bucket, code_in(str(error)), 404, "write to") from None

    @contextmanager
    def _errors(self, bucket: str, action: str) -> Iterator[None]:
        """obstore's exceptions as ours; FileNotFoundError passes unless it is the bucket that is not there."""
        try:
            yield
        except FileNotFoundError as error:
            if code_in(str(error)) == "NoSuchBucket":
                raise self.explain(bucket, "NoSuchBucket", 404, action) from None
            raise
        except self._obstore.exceptions.BaseError as error:
            raise self._explain_text(bucket, str(error), action) from None

    def _explain_text(self, bucket: str, text: str, action: str) -> StoreError:
        status = _STATUS.search(text)
        if status:
            return self.explain(bucket, code_in(text), int(status.group(1)), action)
        first = text.split("Debug source", 1)[0].strip()
        if "HTTP error" in first or "error sending request" in first or "request or response body" in first:
            return self.unreachable(first.rpartition("HTTP error: ")[2] or "no connection")
        return StoreError(f"cannot {action} s3://{bucket}: {' '.join(first.split())}")


def _info(entry: Any) -> ObjectInfo:
    return ObjectInfo(entry["path"], entry["size"], (entry["e_tag"] or "").strip('"'))
