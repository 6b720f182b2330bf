"""Options that the commands about platforms, models and images share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tao_run.catalog import Catalog
    from tao_run.cli.runtime import Runtime

SkillBank = Annotated[
    Path | None,
    typer.Option(
        "--skill-bank", metavar="DIR", help="TAO skill bank to use (else TAO_SKILL_BANK_PATH, else the packaged facts)."
    ),
]


def catalog_of(runtime: Runtime, skill_bank: Path | None) -> Catalog:
    """The catalog a command works with; on stderr it says when that is not the packaged one."""
    from tao_run.catalog import load

    catalog = load(skill_bank, runtime.environ)
    if skill_bank is None and catalog.origin != "packaged":
        runtime.output.note(f"skill bank: {catalog.origin} (TAO_SKILL_BANK_PATH)")
    return catalog
