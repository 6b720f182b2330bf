"""What tao-run knows of platforms, models, actions and images before anything is launched."""

from __future__ import annotations

from tao_run.catalog.catalog import Catalog, load

__all__ = ["Catalog", "load"]
