"""Images from a registry with a port and a login: digest, policy, progress, and whose password goes where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_run.credentials import Credentials
from tao_run.errors import BackendRejected, CredentialMissing, CredentialRefused, Unavailable
from tao_run.platforms.docker.images import ImageReference
from tao_run.platforms.docker.options import Options
from tao_run.platforms.docker.pull import follow, login, progress_line, pull_error
from tao_run.platforms.lifecycle import submit
from tests.platforms.docker.conftest import Bench
from tests.services.docker import DockerService, Registry, free_port

IMAGE = ImageReference.parse("nvcr.io/nvidia/tao:6")


@pytest.fixture(scope="module")
def pushed(dockerd: DockerService, registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """An image in the registry, by tag and by digest; nothing of it stays on the engine."""
    tag = f"{registry.address}/team/app:1"
    config = str(tmp_path_factory.mktemp("config"))
    dockerd.cli("tag", "mini:1", tag)
    dockerd.cli("--config", config, "login", "-u", registry.user, "-p", registry.password, registry.address)
    dockerd.cli("--config", config, "push", tag)
    digest = dockerd.cli("inspect", "-f", "{{index .RepoDigests 0}}", tag).strip()
    dockerd.cli("rmi", tag)
    return tag, digest


@pytest.fixture
def loggable(dockerd: DockerService, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench with the registry's password as a credential, and no stored login."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    return Bench(dockerd, tmp_path / "state", REG_PASSWORD=registry.password, WRONG_PASSWORD="no-such-word")


PLAIN = Options.model_validate({})
LOGIN = {"registry_user": "bob", "registry_secret": "REG_PASSWORD"}


@pytest.mark.parametrize("which", [0, 1])
def test_tag_and_digest_are_pulled_with_the_login(loggable: Bench, pushed: tuple[str, str], which: int) -> None:
    image = pushed[which]
    assert loggable.output("echo pulled", image=image, options=LOGIN) == ["pulled"]
    assert f"pulling {image}" in loggable.notes
    loggable.service.cli("rmi", "-f", image)


def test_the_login_holds_for_that_pull_only(loggable: Bench, pushed: tuple[str, str]) -> None:
    loggable.output("true", image=pushed[0], options=LOGIN)
    loggable.service.cli("rmi", "-f", pushed[0])
    with pytest.raises(CredentialRefused, match="refuses") as refused:
        loggable.submit("true", image=pushed[0])
    assert "docker login" in refused.value.hint


def test_a_wrong_password_is_told_and_not_shown(loggable: Bench, pushed: tuple[str, str]) -> None:
    options = {**LOGIN, "registry_secret": "WRONG_PASSWORD"}
    job = loggable.build("true", image=pushed[0], options=options)
    with pytest.raises(CredentialRefused) as refused:
        submit(loggable.sdk, loggable.store, job)
    assert "no-such-word" not in str(refused.value)
    assert not loggable.exists(job)
    with pytest.raises(CredentialMissing):
        loggable.submit("true", image=pushed[0], options={**LOGIN, "registry_secret": "NOT_SET"})


def test_a_tag_that_is_not_there(loggable: Bench, pushed: tuple[str, str]) -> None:
    with pytest.raises(BackendRejected, match=r"there is no image .*:none"):
        loggable.submit("true", image=pushed[0].replace(":1", ":none"), options=LOGIN)


def test_a_registry_that_does_not_answer(loggable: Bench) -> None:
    job = loggable.build("true", image=f"127.0.0.1:{free_port()}/app:1")
    with pytest.raises(Unavailable, match="does not answer"):
        submit(loggable.sdk, loggable.store, job)
    assert loggable.store.get(job.id).status.reason == "SubmitRefused"


def test_always_asks_the_registry_and_missing_does_not(loggable: Bench, pushed: tuple[str, str]) -> None:
    loggable.service.cli("tag", "mini:1", "127.0.0.1:1/app:1")
    assert loggable.output("echo here", image="127.0.0.1:1/app:1") == ["here"]
    with pytest.raises(Unavailable):
        loggable.submit("true", image="127.0.0.1:1/app:1", options={"pull_policy": "always"})


def test_the_stored_login_of_docker_is_used(
    loggable: Bench, pushed: tuple[str, str], registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    loggable.service.cli("--config", str(config), "login", "-u", "bob", "-p", registry.password, registry.address)
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    assert loggable.output("echo pulled", image=pushed[0]) == ["pulled"]
    loggable.service.cli("rmi", "-f", pushed[0])


def test_the_ngc_key_goes_to_ngc_alone() -> None:
    keys = Credentials({"NGC_KEY": "nvapi-0123456789"})
    assert login(IMAGE, PLAIN, keys) == {"username": "$oauthtoken", "password": "nvapi-0123456789"}
    for other in ("ubuntu", "example.com/nvcr.io/x", "notnvcr.io/x", "nvcr.io.example.com/x"):
        assert login(ImageReference.parse(other), PLAIN, keys) is None
    assert login(IMAGE, PLAIN, Credentials({})) is None


def test_progress_counts_layers_and_bytes(bench: Bench) -> None:
    class Ticking:
        """Every look at the clock is six seconds later."""

        at = 0.0

        def monotonic(self) -> float:
            self.at += 6
            return self.at

    said: list[str] = []
    events = [
        {"status": "Downloading", "id": "a", "progressDetail": {"current": 10_000_000, "total": 40_000_000}},
        {"status": "Downloading", "id": "b", "progressDetail": {"current": 5_000_000, "total": 5_000_000}},
        {"status": "Download complete", "id": "a"},
        {"status": "Digest: sha256:..."},
    ]
    follow(events, IMAGE, said.append, Ticking())  # type: ignore[arg-type]
    assert said == [
        "pulling nvcr.io/nvidia/tao:6: 1 of 2 layers, 15 of 45 MB",
        "pulling nvcr.io/nvidia/tao:6: 2 of 2 layers, 45 of 45 MB",
    ]
    assert progress_line(IMAGE, {}) == "pulling nvcr.io/nvidia/tao:6: 0 of 0 layers, 0 of 0 MB"
    with pytest.raises(BackendRejected, match="no space left"):
        follow([{"errorDetail": {"message": "no space left on device"}}], IMAGE, said.append, bench.sdk.clock)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("unauthorized: authentication required", CredentialRefused),
        ("pull access denied for x, repository does not exist or may require 'docker login'", CredentialRefused),
        ("manifest for x:9 not found: manifest unknown: manifest unknown", BackendRejected),
        ("Get https://nvcr.io/v2/: dial tcp: lookup nvcr.io: no such host", Unavailable),
        ("toomanyrequests: You have reached your pull rate limit", Unavailable),
        ("no matching manifest for linux/arm64", BackendRejected),
    ],
)
def test_what_a_registry_says_in_our_words(message: str, kind: type[Exception]) -> None:
    error = pull_error(message, IMAGE)
    assert type(error) is kind
    assert str(IMAGE) in error.message
