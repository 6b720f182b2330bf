#!/usr/bin/env python3
"""Writes the packaged catalog (tao_run/catalog/data) from a TAO skill bank."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tao_run.catalog.bank import SkillBank
from tao_run.catalog.facts import summary_of, to_data
from tao_run.errors import TaoRunError

DATA = Path(__file__).resolve().parents[1] / "tao_run" / "catalog" / "data"


def write(bank: SkillBank, target: Path) -> int:
    """Write all files of the catalog under `target` and drop models the bank no longer has; count the models."""
    models = target / "models"
    models.mkdir(parents=True, exist_ok=True)
    for stale in models.glob("*.json"):
        if stale.stem not in bank.models:
            stale.unlink()
    for name, facts in bank.models.items():
        _write_json(models / f"{name}.json", to_data(facts))
    _write_json(target / "models.json", [to_data(summary_of(facts)) for facts in bank.models.values()])
    platforms = bank.platforms()
    if platforms is not None:
        _write_json(target / "platforms.json", [to_data(facts) for facts in platforms])
    return len(bank.models)


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False, sort_keys=False) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Build the catalog; 0, or the exit code of what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skill-bank", type=Path, required=True, help="directory with versions.yaml and skills/")
    parser.add_argument("--output", type=Path, default=DATA, help="where to write (default: the package)")
    arguments = parser.parse_args(argv)
    try:
        count = write(SkillBank(arguments.skill_bank), arguments.output)
    except TaoRunError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{count} models written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
