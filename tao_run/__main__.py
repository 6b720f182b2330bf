"""`python -m tao_run` is the same as `tao-run`."""

from __future__ import annotations

from tao_run.cli.main import main

if __name__ == "__main__":
    main()
