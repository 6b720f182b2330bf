"""leptonai's own resource classes on our session and with our errors: what creates, changes or discovers.

Imported late (it takes half a second) and only by what needs it. Answers come back as plain documents: the
client's models would drop what they do not know.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

from tao_run.errors import NotFound, UsageError
from tao_run.platforms.lepton.api import ALIVE_AND_ARCHIVE, LeptonApi, as_rows
from tao_run.platforms.lepton.faults import document, network_errors, not_installed

Document = dict[str, Any]
_CACHE_VARIABLE = "LEPTON_CACHE_DIR"


class PlainAnswers:
    """Put before a resource class of leptonai: our errors, plain documents, nothing on stderr.

    The client's own `ensure_*` put whole bodies, which may hold secrets, into exceptions and on stderr.
    """

    def _raise_if_not_ok(self, response: Any) -> None:
        document(response)

    def ensure_type(self, response: Any, _kind: Any) -> Any:
        return document(response)

    def ensure_json(self, response: Any) -> Any:
        return document(response)

    def ensure_ok(self, response: Any) -> bool:
        document(response)
        return True

    def ensure_list(self, response: Any, _kind: Any, list_key: str | None = None) -> list[Document]:
        return as_rows(document(response), list_key or "")

    def safe_json(self, content: Any) -> Any:
        return [to_wire(item) for item in content] if isinstance(content, list) else to_wire(content)


def to_wire(model: Any) -> Document:
    """A model of leptonai as the JSON that is sent: aliases, no nulls."""
    return cast("Document", model.model_dump(mode="json", by_alias=True, exclude_none=True))


class LeptonSdk:
    """leptonai for one workspace. Methods raise NotInstalled and what `LeptonApi` raises."""

    def __init__(self, api: LeptonApi) -> None:
        self._api = api

    def wire_body(self, body: Mapping[str, Any]) -> Document:
        """A job body as leptonai sends it, checked by its rules (name, mounts, labels, environment).

        Raises UsageError naming what is wrong.
        """
        self._client  # noqa: B018  (the import, with its errors)
        from leptonai.api.v2.job_validation import validate_job_create

        job = self._job_model(body)
        try:
            validate_job_create(job)
        except ValueError as error:
            raise UsageError(f"Lepton does not take this job: {error}") from None
        return to_wire(job)

    def create_job(self, body: Mapping[str, Any]) -> Document:
        """POST a job, once."""
        return cast("Document", self._call(lambda client: client.job.create(self._job_model(body))))

    def stop_job(self, job_id: str) -> None:
        """Ask for a stop: the record and the logs stay."""
        self._call(lambda client: client.job.update(job_id, spec={"spec": {"stopped": True}}))

    def delete_job(self, job_id: str) -> None:
        """Remove a job, alive or archived."""
        self._call(lambda client: client.job.delete(job_id, job_query_mode=ALIVE_AND_ARCHIVE))

    def node_groups(self) -> list[Document]:
        """All node groups with their volumes."""
        return self._list(lambda client: client.nodegroup.list_all())

    def shapes(self, group_id: str) -> list[Document]:
        """The shapes for jobs in one node group; of the shared capacity if it is empty."""
        return self._list(lambda client: client.shapes.list_shapes(group_id or None, "job"))

    def permissions(self, volume: str, group_id: str) -> list[Document]:
        """Who may mount which paths of a volume; empty: everybody everything."""
        return self._list(lambda client: client.nodegroup.list_storage_permissions(group_id, volume))

    def create_secrets(self, values: Mapping[str, str]) -> None:
        """Create private workspace secrets: the one body that holds their values."""

        def create(client: Any) -> Any:
            from leptonai.api.v2.types.secret import SecretItem

            items = [SecretItem(name=name, value=value, visibility="private") for name, value in values.items()]
            return client.secret.create(items)

        self._call(create)

    def _job_model(self, body: Mapping[str, Any]) -> Any:
        from leptonai.api.v2.types.job import LeptonJob
        from pydantic import ValidationError

        try:
            return LeptonJob.model_validate(dict(body))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UsageError(f"Lepton does not take this job: {where}: {first['msg']}") from None

    def _list(self, act: Callable[[Any], Any]) -> list[Document]:
        return cast("list[Document]", self._call(act))

    def _call(self, act: Callable[[Any], Any]) -> Any:
        client = self._client
        try:
            with network_errors():
                return act(client)
        except NotFound:
            self._api.require_workspace()
            raise

    @cached_property
    def _client(self) -> Any:
        api, session = self._api, self._api.session
        try:
            with _no_workspace_record():
                from leptonai.api.v2.client import APIClient
        except ImportError as error:
            raise not_installed(error) from None
        account = api.account
        client = APIClient(workspace_id=account.workspace, auth_token=api.token, url=account.url)
        client._session.close()
        client._session, client._timeout = session, api.timeout
        for name in ("job", "nodegroup", "shapes", "secret"):
            setattr(client, name, _plain(type(getattr(client, name)))(client))
        return client


def _plain(resource: type[Any]) -> type[Any]:
    return type(f"Plain{resource.__name__}", (PlainAnswers, resource), {})


@contextmanager
def _no_workspace_record() -> Iterator[None]:
    """leptonai reads `workspace_info.yaml` while it is imported, and cannot be imported if that is malformed.

    We name workspace, token and address ourselves, so it is shown an empty directory.
    """
    if "leptonai" in sys.modules:
        yield
        return
    before = os.environ.get(_CACHE_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="tao-run-") as empty:
        os.environ[_CACHE_VARIABLE] = empty
        try:
            yield
        finally:
            del os.environ[_CACHE_VARIABLE]
            if before is not None:
                os.environ[_CACHE_VARIABLE] = before
