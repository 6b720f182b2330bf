"""The console script, and `python -m tao_run`: Ctrl-C while Python still loads the program leaves no traceback."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process."""
    try:
        from tao_run.cli.main import main as command_line

        command_line()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
