"""Gets the image: policy, progress, and a login that holds for this one pull."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tao_run.clock import Clock
from tao_run.credentials import Credentials
from tao_run.errors import BackendFault, BackendRejected, CredentialRefused, NotFound, TaoRunError, Unavailable
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.images import ImageReference
from tao_run.platforms.docker.options import Options
from tao_run.platforms.references import is_ngc
from tao_run.redact import redact

NGC_USER = "$oauthtoken"
NGC_SECRET = "NGC_KEY"
_SAY_EVERY = 10.0  # seconds
_REFUSED = ("unauthorized", "denied", "no basic auth credentials", "authentication required", "401")
_ABSENT = ("manifest unknown", "not found", "name unknown", "repository does not exist", "manifest invalid")
_UNREACHABLE = ("no such host", "connection refused", "i/o timeout", "timeout exceeded", "no route to host", "eof")


def has_image(daemon: Daemon, image: ImageReference) -> bool:
    """Whether the engine has the image already."""
    try:
        with daemon.translated():
            daemon.api.inspect_image(str(image))
    except NotFound:
        return False
    return True


def ensure_image(
    daemon: Daemon, image: ImageReference, policy: str, auth: Mapping[str, str] | None, say: Callable[[str], None]
) -> None:
    """Have the image on the engine, by policy missing, always or never. `say` gets a line of progress now and then.

    Raises BackendRejected (no such image), CredentialRefused (login), Unavailable (registry).
    """
    if policy != "always" and has_image(daemon, image):
        return
    if policy == "never":
        raise BackendRejected(
            f"image {image} is not on {daemon.endpoint} and pull_policy is never", f"docker pull {image}"
        )
    say(f"pulling {image}")
    try:
        with daemon.translated():
            events = daemon.api.pull(image.name, tag=image.version, stream=True, decode=True, auth_config=auth)
            follow(events, image, say, daemon.clock)
    except (NotFound, BackendFault) as error:  # the engine answers 404 and 500 for what the registry said
        raise pull_error(error.message, image) from None


def login(image: ImageReference, options: Options, credentials: Credentials) -> dict[str, str] | None:
    """Name and password for the image's registry, or None: then what `docker login` has stored is used.

    NGC_KEY goes to nvcr.io and nowhere else, unless the request names it for another registry.
    """
    ngc = is_ngc(image.registry)
    secret = options.registry_secret or (NGC_SECRET if ngc and credentials.has(NGC_SECRET) else None)
    if secret is None:
        return None
    user = options.registry_user or credentials.setting("DOCKER_USERNAME") or NGC_USER
    return {"username": user, "password": credentials.value(secret)}


def follow(
    events: Iterable[Mapping[str, Any]], image: ImageReference, say: Callable[[str], None], clock: Clock
) -> None:
    """Read the engine's report of a pull to its end; a fault in it is an error although HTTP said 200."""
    layers: dict[str, tuple[int, int]] = {}
    said = clock.monotonic()
    for event in events:
        if event.get("error") or event.get("errorDetail"):
            detail = event.get("errorDetail") or {}
            raise pull_error(str(detail.get("message") or event.get("error")), image)
        _count(layers, event)
        if clock.monotonic() - said >= _SAY_EVERY:
            said = clock.monotonic()
            say(progress_line(image, layers))


def _count(layers: dict[str, tuple[int, int]], event: Mapping[str, Any]) -> None:
    """What is downloaded of each layer: (bytes so far, bytes in all)."""
    layer, status = str(event.get("id") or ""), str(event.get("status") or "")
    told = event.get("progressDetail") or {}
    if status == "Downloading" and told.get("total"):
        layers[layer] = (int(told.get("current") or 0), int(told["total"]))
    elif status in ("Download complete", "Pull complete") and layer in layers:
        layers[layer] = (layers[layer][1], layers[layer][1])


def progress_line(image: ImageReference, layers: Mapping[str, tuple[int, int]]) -> str:
    """One line that says how far a pull is."""
    done, total = (sum(pair[part] for pair in layers.values()) for part in (0, 1))
    ready = sum(current == whole for current, whole in layers.values())
    return f"pulling {image}: {ready} of {len(layers)} layers, {done / 1e6:.0f} of {total / 1e6:.0f} MB"


def pull_error(message: str, image: ImageReference) -> TaoRunError:
    """What the engine says of a failed pull, with what to do."""
    text, low = " ".join(redact(message).split()), message.lower()
    if "toomanyrequests" in low or "rate limit" in low:
        return Unavailable(f"the registry limits pulls of {image}: {text}", "log in with `docker login`, or wait")
    if any(phrase in low for phrase in _REFUSED):
        return CredentialRefused(f"the registry refuses {image}: {text}", _login_hint(image))
    if any(phrase in low for phrase in _ABSENT):
        return BackendRejected(f"there is no image {image}: {text}", "check its name and tag")
    if any(phrase in low for phrase in _UNREACHABLE):
        return Unavailable(
            f"the registry of {image} does not answer: {text}",
            "check the registry's name and the network of the daemon's host",
        )
    return BackendRejected(f"cannot pull {image}: {text}")


def _login_hint(image: ImageReference) -> str:
    if is_ngc(image.registry):
        return "set NGC_KEY (in the environment or ~/.config/tao/.env), and check that it may read this image"
    return (
        f"docker login {image.registry}".rstrip() + ", or -o registry_user=... -o registry_secret=NAME; check the name"
    )
