"""Writes completions/ for bash, zsh and fish, as `tao-run` itself describes them to a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = {"bash": "tao-run.bash", "zsh": "_tao-run", "fish": "tao-run.fish"}


def script_for(shell: str) -> str:
    """The completion script of one shell."""
    program = "import sys; sys.argv[0] = 'tao-run'; from tao_run.cli.main import main; main()"
    environ = {**os.environ, "_TAO_RUN_COMPLETE": f"source_{shell}", "PYTHONPATH": str(ROOT)}
    answer = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    return answer.stdout.strip() + "\n"


def main() -> int:
    """Write all files."""
    folder = ROOT / "completions"
    folder.mkdir(exist_ok=True)
    for shell, name in FILES.items():
        (folder / name).write_text(script_for(shell), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
