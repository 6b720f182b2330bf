"""Image references are told apart as Docker does."""

import pytest

from tao_run.errors import UsageError
from tao_run.platforms.docker.images import ImageReference

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("ubuntu", "ubuntu", "latest"),
        ("ubuntu:22.04", "ubuntu", "22.04"),
        ("docker.io/library/ubuntu", "library/ubuntu", "latest"),
        ("bitnami/redis:7", "bitnami/redis", "7"),
        ("nvcr.io/nvidia/tao/tao-toolkit:6.0.0-pyt", "nvcr.io/nvidia/tao/tao-toolkit", "6.0.0-pyt"),
        ("localhost/app", "localhost/app", "latest"),
        ("127.0.0.1:5055/team/app:1.0_x", "127.0.0.1:5055/team/app", "1.0_x"),
        ("[::1]:5000/app:2", "[::1]:5000/app", "2"),
        (f"nvcr.io/nvidia/tao@{DIGEST}", "nvcr.io/nvidia/tao", DIGEST),
        (f"host:5000/a/b:tag@{DIGEST}", "host:5000/a/b", DIGEST),
        (f"app@{DIGEST}", "app", DIGEST),
    ],
)
def test_a_reference_is_taken_apart(text: str, name: str, version: str) -> None:
    image = ImageReference.parse(text)
    assert (image.name, image.version) == (name, version)
    assert str(image) == f"{name}{'@' if version == DIGEST else ':'}{version}"


def test_the_first_part_is_a_registry_only_if_it_looks_like_a_host() -> None:
    assert ImageReference.parse("bitnami/x:1").registry == ""
    assert ImageReference.parse("host:5000/x:1").registry == "host:5000"
    assert ImageReference.parse("nvcr.io/x").registry == "nvcr.io"


@pytest.mark.parametrize(
    "text",
    ["", "Ubuntu", "a//b", "app:", "app:-x", "app@sha256:12", "app@", "host:port/app", "http://nvcr.io/app", "a b"],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="image"):
        ImageReference.parse(text)
