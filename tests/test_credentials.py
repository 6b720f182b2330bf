"""Credentials: odd env files, presence without values, all missing names at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_run.credentials import Credentials, is_secret_name, parse_env, read_env_file
from tao_run.errors import CredentialMissing, UsageError

ODD = (
    "\ufeffexport A=1\r\nB='two words' # comment\r\nC=to#ken\r\nD= # nothing\r\nE\r\n"
    'F="x$HOME"\r\n# G=7\r\nH=a=b==\r\n'
)


def test_odd_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_bytes(ODD.encode())
    file.chmod(0o600)
    values, warnings = read_env_file(file)
    assert values == {"A": "1", "B": "two words", "C": "to#ken", "F": "x$HOME", "H": "a=b=="}
    assert any("E has no value" in warning for warning in warnings)


def test_an_open_quote_is_named_by_line() -> None:
    values, warnings = parse_env('A=1\nB="open\n', "file")
    assert values == {"A": "1"}
    assert warnings[0].startswith("file line 2")


def test_a_file_others_can_read_gets_a_warning(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("A=1\n")
    file.chmod(0o644)
    assert any("chmod 600" in warning for warning in read_env_file(file)[1])
    file.chmod(0o600)
    assert read_env_file(file)[1] == []


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    assert read_env_file(tmp_path / "absent") == ({}, [])
    with pytest.raises(UsageError, match="TAO_ENV_FILE"):
        Credentials.load({"TAO_ENV_FILE": str(tmp_path / "absent")})


def test_a_variable_that_is_set_wins_and_an_empty_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("A=file\nB=file\n")
    file.chmod(0o600)
    loaded = Credentials.load({"TAO_ENV_FILE": str(file), "A": "process", "B": ""})
    assert (loaded.setting("A"), loaded.setting("B")) == ("process", "file")


def test_all_missing_names_are_said_at_once() -> None:
    with pytest.raises(CredentialMissing, match="ONE, THREE") as raised:
        Credentials({"TWO": "x"}).require(["ONE", "TWO", "THREE"], "platform x")
    assert raised.value.names == ("ONE", "THREE")
    assert raised.value.exit_code == 3


@pytest.mark.parametrize("name", ["HF_TOKEN", "MY_PASSWORD", "X_API_KEY", "SECRET_KEY"])
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["LEPTON_WORKSPACE_ID", "S3_BUCKET_NAME", "SSH_KEY_PATH", "PATH"])
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)
