"""Presence of credentials: what is missing is named together with where to get it."""

from __future__ import annotations

import pytest

from tao_run import catalog
from tao_run.credentials import Credentials, read_env_file
from tao_run.preflight import credentials as presence


def test_all_missing_ones_are_named_together_with_how_to_get_them() -> None:
    facts = catalog.load(environ={}).platform("lepton")
    check = presence.check_platform(facts, Credentials({}))
    assert check.status == "failed"
    assert "LEPTON_WORKSPACE_ID, LEPTON_AUTH_TOKEN" in check.detail
    assert "Lepton API token" in check.fix
    both = {"LEPTON_WORKSPACE_ID": "w", "LEPTON_AUTH_TOKEN": "canary-token"}
    assert presence.check_platform(facts, Credentials(both)).status == "ok"


@pytest.mark.parametrize("platform", ["local", "docker", "kubernetes", "brev"])
def test_platforms_that_need_none(platform: str) -> None:
    facts = catalog.load(environ={}).platform(platform)
    assert presence.check_platform(facts, Credentials({})).status == "ok"


def test_slurm_needs_user_and_host_only() -> None:
    facts = catalog.load(environ={}).platform("slurm")
    environ = {"SLURM_USER": "me", "SLURM_HOSTNAME": "login"}
    assert presence.check_platform(facts, Credentials(environ)).status == "ok"
    assert "SLURM_HOSTNAME" in presence.check_platform(facts, Credentials({"SLURM_USER": "me"})).detail


def test_a_readable_credentials_file_is_a_warning(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / ".env"
    path.write_text("NGC_KEY=canary-in-file\nbroken\n")
    path.chmod(0o644)
    values, warnings = read_env_file(path)
    loaded = Credentials({}, values)
    loaded.warnings = warnings
    check = presence.check_file(loaded)
    assert check.status == "ok"
    assert "chmod 600" in check.fix
    assert "0644" in check.detail
    assert "line 2" in check.detail
    assert "canary-in-file" not in check.detail + check.fix


def test_conditional_credentials_warn() -> None:
    conditional = {"HF_TOKEN": "required only when fetching a gated checkpoint"}
    check = presence.check_model("m", [], conditional, Credentials({}))
    assert (check.status, bool(check.fix)) == ("ok", True)
    assert presence.check_model("m", [], conditional, Credentials({"HF_TOKEN": "xxxx"})).fix == ""


def test_registry_login_is_a_warning_only() -> None:
    check = presence.check_image_pull("nvcr.io/nvidia/tao/x:1", Credentials({}))
    assert (check.status, bool(check.fix)) == ("ok", True)
    assert presence.check_image_pull("nvcr.io/x:1", Credentials({"NGC_KEY": "abcd"})).fix == ""
