"""Image references: well formed or refused, in the one form that the engine's calls agree on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tao_run.errors import UsageError
from tao_run.platforms.references import Parts, split_reference

_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_REGISTRY = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")


@dataclass(frozen=True)
class ImageReference:
    """One image. `registry` is empty for Docker Hub; tag and digest are empty where they were not given."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """Take a reference apart (grammar: distribution/reference). Raises UsageError for what is none."""
        parts = split_reference(text)
        _check(text.strip(), parts)
        return cls(*parts)

    @property
    def name(self) -> str:
        """Registry and repository, without tag and digest."""
        return f"{self.registry}/{self.repository}" if self.registry else self.repository

    @property
    def version(self) -> str:
        """What to pull: the digest if there is one (a tag beside it says nothing more), else the tag."""
        return self.digest or self.tag or "latest"

    def __str__(self) -> str:
        """The one form that create, inspect and pull agree on."""
        return f"{self.name}{'@' if self.digest else ':'}{self.version}"


def _check(text: str, parts: Parts) -> None:
    registry, repository, tag, digest = parts
    if registry and not _REGISTRY.fullmatch(registry):
        raise UsageError(f"image {text!r}: {registry!r} is no registry", "write HOST[:PORT]/REPOSITORY[:TAG]")
    if not _REPOSITORY.fullmatch(repository):
        lower = "; repository names are lower case" if repository != repository.lower() else ""
        raise UsageError(f"image {text!r}: {repository!r} is no repository{lower}")
    if (tag or text.partition("@")[0].endswith(":")) and not _TAG.fullmatch(tag):
        raise UsageError(f"image {text!r}: {tag!r} is no tag")
    if "@" in text and not _DIGEST.fullmatch(digest):
        raise UsageError(f"image {text!r}: {digest!r} is no digest", "write REPOSITORY@sha256:<64 digits>")
