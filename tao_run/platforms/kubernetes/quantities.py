"""Kubernetes quantities (`500m`, `16Gi`) as numbers."""

from __future__ import annotations

_SUFFIXES = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "m": 1e-3, "u": 1e-6, "n": 1e-9,
}  # fmt: skip


def number(quantity: str | int | float) -> float:
    """The value of a quantity; 0 for what is none (a node that reports nonsense has none of it)."""
    text = str(quantity).strip()
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return _float(text[: -len(suffix)]) * factor
    return _float(text)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
