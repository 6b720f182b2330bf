"""Where data lies and what is there: URIs, S3-compatible stores, files. Imports no SDK until it is needed."""

from __future__ import annotations

from tao_run.storage.paths import check_path, list_path
from tao_run.storage.s3 import Found, S3Store
from tao_run.storage.uris import Location, join, parse_location

__all__ = ["Found", "Location", "S3Store", "check_path", "join", "list_path", "parse_location"]
