"""Container image references taken apart, as Docker does it."""

from __future__ import annotations

from typing import NamedTuple

NGC_REGISTRY = "nvcr.io"
_DOCKER_HUB = frozenset({"docker.io", "index.docker.io"})


class Parts(NamedTuple):
    """Parts of a reference. `registry` is empty for Docker Hub; tag and digest are empty where none was given."""

    registry: str
    repository: str
    tag: str
    digest: str


def split_reference(text: str) -> Parts:
    """Parts of `[registry/]repository[:tag][@digest]`; whether they are well formed is for the caller to judge.

    The first part is a registry only if it has a dot, a port or a capital letter, or is `localhost`: `bitnami/x` is
    on Docker Hub. Source: distribution/reference, splitDockerDomain.
    """
    rest, _, digest = text.strip().partition("@")
    first, slash, path = rest.partition("/")
    named = bool(slash) and (first == "localhost" or any(mark in first for mark in ".:") or first != first.lower())
    registry, rest = (first, path) if named else ("", rest)
    repository, _, tag = rest.partition(":")
    return Parts("" if registry in _DOCKER_HUB else registry, repository, tag, digest)


def is_ngc(registry: str) -> bool:
    """Whether a registry is NGC's, which takes NGC_KEY."""
    return registry == NGC_REGISTRY or registry.endswith("." + NGC_REGISTRY)
