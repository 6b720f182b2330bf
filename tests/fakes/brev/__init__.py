"""An executable double of the brev CLI (v0.6.99) with instances that really run what they are given."""

from tests.fakes.brev.control import TYPES, FakeBrev

__all__ = ["TYPES", "FakeBrev"]
