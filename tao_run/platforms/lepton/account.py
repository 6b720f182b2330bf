"""Which workspace, at which address: what is recorded with a job as its account, and what the token is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from tao_run.credentials import Credentials
from tao_run.errors import CredentialMissing, UsageError

GATEWAY = "https://gateway.dgxc-lepton.nvidia.com"
_PATH = "/api/v2/workspaces/"
#: our name, and the name that the vendor's own client reads
TOKEN_NAMES = ("LEPTON_AUTH_TOKEN", "LEPTON_WORKSPACE_TOKEN")


@dataclass(frozen=True)
class Account:
    """One workspace. `url` is its whole API base, without a slash at the end."""

    workspace: str
    url: str

    def __str__(self) -> str:
        return self.workspace if self.url == _default_url(self.workspace) else f"{self.workspace}@{self.url}"


def parse_account(text: str) -> Account:
    """The account recorded with a job."""
    workspace, _, url = text.partition("@")
    return Account(workspace, url or _default_url(workspace))


def current_account(credentials: Credentials, options: Mapping[str, object]) -> Account:
    """The workspace that options and settings name.

    The address is, in this order: option `api_url`, LEPTON_WORKSPACE_URL (a whole workspace base),
    LEPTON_API_BASE_URL (a gateway), the public gateway. Raises CredentialMissing naming all that is
    missing, UsageError for a value that cannot be right.
    """
    workspace = str(options.get("workspace") or credentials.setting("LEPTON_WORKSPACE_ID"))
    absent = [] if workspace else ["LEPTON_WORKSPACE_ID"]
    absent += [] if any(credentials.has(name) for name in TOKEN_NAMES) else [TOKEN_NAMES[0]]
    if absent:
        raise CredentialMissing(
            f"Lepton needs {' and '.join(absent)}, not set",
            "make a token on the dashboard's Tokens page; put both into ~/.config/tao/.env",
            tuple(absent),
        )
    if ":" in workspace or "@" in workspace or "/" in workspace:
        raise UsageError(
            "LEPTON_WORKSPACE_ID is not a workspace id",
            "a credential `id:token` is two values: LEPTON_WORKSPACE_ID and LEPTON_AUTH_TOKEN",
        )
    url = _url(workspace, credentials, options)
    named = url.partition(_PATH)[2].partition("/")[0]
    if named != quote(workspace, safe=""):
        raise UsageError(
            f"the Lepton API address is of workspace {named}, but the workspace asked for is {workspace}",
            "make LEPTON_WORKSPACE_URL and LEPTON_WORKSPACE_ID (or option workspace) agree",
        )
    return Account(workspace, url)


def token(credentials: Credentials) -> str:
    """The API token. Raises CredentialMissing."""
    for name in TOKEN_NAMES:
        if credentials.has(name):
            return credentials.value(name)
    return credentials.value(TOKEN_NAMES[0])


def _url(workspace: str, credentials: Credentials, options: Mapping[str, object]) -> str:
    whole = str(options.get("api_url") or credentials.setting("LEPTON_WORKSPACE_URL"))
    gateway = credentials.setting("LEPTON_API_BASE_URL")
    if whole and _PATH.strip("/") not in whole:
        whole, gateway = "", whole
    url = whole or (gateway.rstrip("/") + _PATH + quote(workspace, safe="") if gateway else _default_url(workspace))
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise UsageError("the Lepton API address is no http(s) URL", "see LEPTON_WORKSPACE_URL and option api_url")
    return url.rstrip("/")


def _default_url(workspace: str) -> str:
    return GATEWAY + _PATH + quote(workspace, safe="")
