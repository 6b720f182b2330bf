"""Text view of a preflight report."""

from __future__ import annotations

from tao_run.cli.output import Output
from tao_run.cli.output.plain import plain_line
from tao_run.cli.output.views import view
from tao_run.jobs.model import Check
from tao_run.preflight import Report


@view(Report)
def report(result: Report, output: Output) -> None:
    """One line per check, what to do below it, and the outcome as the last line."""
    for check in result.checks:
        for line in check_lines(check):
            output.line(line)
    output.line(f"TAO launch preflight {'passed' if result.passed else 'failed'}")


def check_lines(check: Check) -> list[str]:
    """A check for people: `warning` is one that passed and has something to say."""
    word = "warning" if check.status == "ok" and check.fix else check.status
    lines = [plain_line(f"{word:8}{check.id}: {check.detail}")]
    if check.fix and check.status != "skipped":
        lines.append(plain_line(f"{'':8}do: {check.fix}"))
    return lines
