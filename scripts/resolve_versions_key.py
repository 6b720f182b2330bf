#!/usr/bin/env python3
"""Prints the pin under a dotted key of versions.yaml, such as wheels.tao_sdk_lepton."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tao_run.catalog import load
from tao_run.errors import TaoRunError


def main(argv: list[str] | None = None) -> int:
    """Print the value; 1 and the known keys on stderr if there is no such key, 2 for a wrong skill bank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("key", help="for example images.tao_toolkit.pyt or wheels.tao_sdk_lepton")
    parser.add_argument("--skill-bank", type=Path, help="skill bank whose versions.yaml is meant")
    arguments = parser.parse_args(argv)
    try:
        catalog = load(arguments.skill_bank)
    except TaoRunError as error:
        print(f"error: {error}\n  do: {error.hint}", file=sys.stderr)
        return error.exit_code
    try:
        print(catalog.resolve_key(arguments.key))
    except TaoRunError as error:
        print(f"error: {error}\n  do: {error.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
