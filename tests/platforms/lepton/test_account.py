"""Which workspace and address: options, variables, defaults, and what is recorded."""

from __future__ import annotations

import pytest

from tao_run.credentials import Credentials
from tao_run.errors import CredentialMissing, UsageError
from tao_run.platforms.lepton.account import Account, current_account, parse_account, token

SET = {"LEPTON_WORKSPACE_ID": "ws1", "LEPTON_AUTH_TOKEN": "tok-123456"}
DEFAULT = "https://gateway.dgxc-lepton.nvidia.com/api/v2/workspaces/ws1"


def account(options: dict[str, object] | None = None, **more: str) -> Account:
    return current_account(Credentials({**SET, **more}), options or {})


def test_the_public_gateway_is_the_default_and_is_not_recorded() -> None:
    assert account() == Account("ws1", DEFAULT)
    assert str(account()) == "ws1"


@pytest.mark.parametrize(
    ("variable", "value", "url"),
    [
        (
            "LEPTON_WORKSPACE_URL",
            "http://127.0.0.1:1/api/v2/workspaces/ws1/",
            "http://127.0.0.1:1/api/v2/workspaces/ws1",
        ),
        ("LEPTON_API_BASE_URL", "http://127.0.0.1:1/", "http://127.0.0.1:1/api/v2/workspaces/ws1"),
        ("LEPTON_WORKSPACE_URL", "http://127.0.0.1:1", "http://127.0.0.1:1/api/v2/workspaces/ws1"),
    ],
)
def test_another_address_is_recorded_with_the_job(variable: str, value: str, url: str) -> None:
    found = current_account(Credentials({**SET, variable: value}), {})
    assert found.url == url
    assert parse_account(str(found)) == found


def test_an_option_wins_over_variables() -> None:
    found = account({"workspace": "ws2", "api_url": "https://other.example"}, LEPTON_WORKSPACE_URL="https://x.example")
    assert found == Account("ws2", "https://other.example/api/v2/workspaces/ws2")


def test_all_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(CredentialMissing) as caught:
        current_account(Credentials({}), {})
    assert caught.value.names == ("LEPTON_WORKSPACE_ID", "LEPTON_AUTH_TOKEN")


def test_the_vendors_own_token_variable_is_taken_too() -> None:
    credentials = Credentials({"LEPTON_WORKSPACE_ID": "ws1", "LEPTON_WORKSPACE_TOKEN": "tok-123456"})
    assert current_account(credentials, {}).workspace == "ws1"
    assert token(credentials) == "tok-123456"


def test_a_credential_string_is_not_taken_for_a_workspace_and_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        account(LEPTON_WORKSPACE_ID="ws1:hush-hush")
    assert "hush" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("url", ["ftp://x.example", "gateway.example", "https://me:pw@x.example"])
def test_an_address_that_cannot_be_right(url: str) -> None:
    with pytest.raises(UsageError, match="no http"):
        account(LEPTON_API_BASE_URL=url)


def test_an_address_of_another_workspace_is_refused() -> None:
    with pytest.raises(UsageError, match="workspace ws2"):
        account(LEPTON_WORKSPACE_URL="https://gateway.example/api/v2/workspaces/ws2")
