"""Reads YAML as the training containers do: `1e-5` is a number, whatever YAML 1.1 says."""

from __future__ import annotations

import re
from typing import Any

import yaml

# PyYAML's C loader is about ten times faster; it is missing only where libyaml was not there at build time.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_FLOAT = re.compile(
    r"""^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
        |[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+
        |[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?
        |[-+]?\.(?:inf|Inf|INF)
        |\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)


class Loader(_Base):  # type: ignore[misc]
    """The safe loader with the float form of YAML 1.2, which OmegaConf and Hydra use for TAO specs."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:float"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def load_yaml(text: str, loader: type[Any] = Loader) -> Any:
    """The value of one YAML document.

    Raises:
        yaml.YAMLError: the text is not YAML, or holds what no value can be made of (the 99th of a month).
    """
    try:
        return yaml.load(text, Loader=loader)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # PyYAML lets these through
        raise yaml.YAMLError(f"a value that cannot be read: {error}") from None


def load_value(text: str) -> Any:
    """The value of a command-line `key=value`: as YAML where it is YAML, else the text itself.

    Anchors are not followed: a value that holds itself can be written down nowhere.
    """
    try:
        return text if "&" in text else load_yaml(text)
    except yaml.YAMLError:
        return text
