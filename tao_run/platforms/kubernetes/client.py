"""A thin face on the Kubernetes client: plain objects in and out, our errors instead of its own."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_run.credentials import Credentials
from tao_run.errors import (
    BackendFault,
    BackendRejected,
    BackendUnreachable,
    Conflict,
    CredentialError,
    CredentialRefused,
    NotFound,
    NotInstalled,
    PermissionRefused,
    ProtocolError,
    RateLimited,
    TaoRunError,
)
from tao_run.platforms.kubernetes import account as accounts
from tao_run.platforms.kubernetes.account import IN_CLUSTER, SERVICE_ACCOUNT, Account
from tao_run.redact import redact

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
_MERGE_PATCH = "application/merge-patch+json"
_GROUPS = {"jobs": "/apis/batch/v1", "priorityclasses": "/apis/scheduling.k8s.io/v1"}
_KUEUE = "/apis/kueue.x-k8s.io/v1beta1"
_CLUSTER_WIDE = frozenset({"nodes", "namespaces", "priorityclasses"})


def path_of(resource: str, namespace: str | None, name: str = "") -> str:
    """The URL path of a collection or of one object in it. Without a namespace: over all of them."""
    group = _GROUPS.get(resource, _KUEUE if resource in ("localqueues", "workloads") else "/api/v1")
    scope = "" if namespace is None or resource in _CLUSTER_WIDE else f"/namespaces/{namespace}"
    return f"{group}{scope}/{resource}{f'/{name}' if name else ''}"


class Api:
    """One cluster, spoken to with one user's rights. Every method raises the errors of `tao_run.errors`."""

    def __init__(self, client: ApiClient, account: Account) -> None:
        self._client = client
        self.account = account

    @property
    def server(self) -> str:
        """The URL that the kubeconfig's context points to now."""
        return str(self._client.configuration.host)

    def get(self, resource: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        """One object by name; by default of the account's namespace."""
        return self.call("GET", path_of(resource, namespace or self.account.namespace, name))

    def list(self, resource: str, labels: str = "", fields: str = "", everywhere: bool = False) -> list[dict[str, Any]]:
        """All objects that the selectors fit, in one call."""
        path = path_of(resource, None if everywhere else self.account.namespace)
        query = {"labelSelector": labels, "fieldSelector": fields}
        found = self.call("GET", path, {key: value for key, value in query.items() if value})
        return list(found.get("items") or [])

    def create(self, resource: str, body: Mapping[str, Any], dry_run: bool = False) -> dict[str, Any]:
        """Create an object; with `dry_run` the server does all but store it."""
        query = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        return self.call("POST", path_of(resource, self.account.namespace), query, body)

    def patch(self, resource: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change an object by a JSON merge patch."""
        path = path_of(resource, self.account.namespace, name)
        return self.call("PATCH", path, {}, body, _MERGE_PATCH)

    def delete(self, resource: str, name: str, uid: str) -> None:
        """Delete the object with this uid, and no later one of the same name; its pods go before it."""
        body = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        self.call("DELETE", path_of(resource, self.account.namespace, name), {}, body)

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """One request and its answer as plain data."""
        headers = {"Accept": "application/json", **({"Content-Type": content_type} if body is not None else {})}
        with translated(f"{method} {path}", self.server):
            answer = self._client.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                response_type="object",
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
                _request_timeout=(CONNECT_SECONDS, READ_SECONDS),
            )
        if not isinstance(answer, dict):
            raise ProtocolError(f"{self.server} answers {method} {path} with something that is no Kubernetes object")
        return answer

    @contextlib.contextmanager
    def log_stream(self, pod: str, query: Mapping[str, str], read_seconds: float) -> Iterator[Iterator[bytes]]:
        """The bytes of a pod's log as they come. A silence of `read_seconds` raises BackendUnreachable."""
        path = f"{path_of('pods', self.account.namespace, pod)}/log"
        with translated(f"GET {path}", self.server):
            response = self._client.call_api(
                path,
                "GET",
                query_params=list(query.items()),
                header_params={"Accept": "*/*"},
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
                _preload_content=False,
                _request_timeout=(CONNECT_SECONDS, read_seconds),
            )
            try:
                yield response.stream(64 * 1024, decode_content=True)
            finally:
                response.close()


def connect(account: Account, credentials: Credentials, service_account: Path = SERVICE_ACCOUNT) -> Api:
    """A client for an account. Raises NotInstalled, CredentialError; contacts nothing by itself.

    A login command that the kubeconfig names (exec plugin) runs here.
    """
    try:
        from kubernetes.client import ApiClient, Configuration
        from kubernetes.config import ConfigException
    except ImportError:
        raise NotInstalled(
            "platform kubernetes needs the Python package kubernetes", "pip install 'tao-run[kubernetes]'"
        ) from None
    configuration: Configuration = Configuration()
    try:
        _load(configuration, account, credentials, service_account)
    except (ConfigException, ValueError) as error:  # ValueError: certificate data that is no base64
        raise CredentialError(
            f"the kubeconfig does not give access to context {account.context}: {redact(_one_line(str(error)))}",
            f"`kubectl --context {account.context} get pods` shows the same fault",
        ) from None
    _harden(configuration)
    return Api(ApiClient(configuration), account)


def _load(configuration: Configuration, account: Account, credentials: Credentials, service_account: Path) -> None:
    from kubernetes.config import load_kube_config
    from kubernetes.config.incluster_config import InClusterConfigLoader

    if account.context == IN_CLUSTER:
        environ = {
            "KUBERNETES_SERVICE_HOST": credentials.setting("KUBERNETES_SERVICE_HOST"),
            "KUBERNETES_SERVICE_PORT": credentials.setting("KUBERNETES_SERVICE_PORT", "443"),
        }
        token, authority = str(service_account / "token"), str(service_account / "ca.crt")
        InClusterConfigLoader(token, authority, environ=environ).load_and_set(configuration)
        return
    files = os.pathsep.join(str(path) for path in accounts.kubeconfig_files(credentials))
    load_kube_config(files, account.context, configuration, persist_config=False)


def _harden(configuration: Configuration) -> None:
    """No silent retries after an answer: we count requests and keep to what the server asks for."""
    import urllib3

    configuration.retries = urllib3.Retry(
        total=None, connect=1, read=0, redirect=0, status=0, other=0, respect_retry_after_header=False
    )
    if not configuration.verify_ssl:  # the kubeconfig says so, on every call: no warning on every call
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)


@contextlib.contextmanager
def translated(what: str, server: str) -> Iterator[None]:
    """The client's errors as ours. What a body says is redacted, never shown whole."""
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        raise _from_answer(error, what, server) from None
    except (HTTPError, OSError) as error:
        text = redact(_one_line(str(error)))
        raise BackendUnreachable(
            f"the Kubernetes API at {server} does not answer: {text}", "check the network, the VPN and the context"
        ) from None


def _from_answer(error: Any, what: str, server: str) -> TaoRunError:
    code = int(error.status or 0)
    text = redact(_message(error)) or what
    if code == 0:
        return BackendUnreachable(f"no secure connection to {server}: {_one_line(redact(str(error.reason)))}")
    if code == 401:
        return CredentialRefused(
            f"the cluster at {server} does not accept the kubeconfig's credential", "log in to the cluster again"
        )
    if code == 403 and "exceeded quota" in text:
        return BackendRejected(text, "ask for less, or wait until other jobs have ended")
    if code == 403:
        return PermissionRefused(text, "ask the cluster's administrator for this right in your namespace")
    if code == 429:
        return RateLimited(f"the cluster asks to slow down: {text}", retry_after=_retry_after(error.headers))
    if code >= 500:
        return BackendFault(f"the cluster at {server} answers with a fault of its own ({code}): {text}")
    if code < 400:
        return ProtocolError(f"{server} redirects ({code}): this is not the API of a cluster")
    kinds = {404: NotFound, 409: Conflict}
    return kinds.get(code, BackendRejected)(text)


def _message(error: Any) -> str:
    """The message of a Status object; of any other body only its beginning."""
    body = error.body.decode("utf-8", "replace") if isinstance(error.body, bytes) else str(error.body or "")
    try:
        status = json.loads(body)
    except ValueError:
        return _one_line(body)
    return _one_line(str(status.get("message") or "")) if isinstance(status, dict) else ""


def _retry_after(headers: Mapping[str, str] | None) -> float | None:
    asked = (headers or {}).get("Retry-After", "")
    return float(asked) if asked.isdecimal() else None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
