#!/usr/bin/env python3
"""Lists TAO models, actions and AutoML support: tao-run models, under the name the field knows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tao_run.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["models"]
    main()
