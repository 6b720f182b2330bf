#!/usr/bin/env python3
"""Resolves the container image of a TAO model and action: tao-run resolve-image, under the name the field knows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tao_run.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["resolve-image"]
    main()
