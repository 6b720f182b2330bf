"""Text view of a failure analysis."""

from __future__ import annotations

from tao_run.analysis.hits import Hit
from tao_run.analysis.result import FailureAnalysis, FirstFailed, Report
from tao_run.cli.output import Output
from tao_run.cli.output.plain import plain, plain_line
from tao_run.cli.output.views import view

_MOST_COLUMNS = 240
_MOST_VICTIMS = 16


@view(Report)
def report(result: Report, output: Output) -> None:
    """Cause, what it means, what to do, and the lines that it is concluded from."""
    found = result.analysis
    if found is None:
        state = f" (state {result.state})" if result.state else ""
        output.line(plain(f"{result.subject}: nothing that looks like a failure was found{state}"))
        return
    for label, value in _pairs(found):
        if value:
            output.line(f"{label + ':':<14}{plain(value)}")
    output.line("evidence:")
    for hit in found.evidence:
        output.line(f"  {_where(hit):<18} {plain_line(hit.text)[:_MOST_COLUMNS]}")
    if found.also_seen:
        output.line("also seen:")
        for other in found.also_seen:
            output.line(f"  {other.rule} ({other.count}x): {plain_line(other.line)[:_MOST_COLUMNS]}")


def _pairs(found: FailureAnalysis) -> list[tuple[str, str]]:
    sure = "" if found.certainty in ("sure", "likely") else f" ({found.certainty})"
    victims = ", ".join(map(str, found.victims[:_MOST_VICTIMS]))
    more = f" and {len(found.victims) - _MOST_VICTIMS} more" if len(found.victims) > _MOST_VICTIMS else ""
    return [
        ("cause", f"{found.title}{sure}"),
        ("class", f"{found.err_class} / {found.category} / {found.rule}"),
        ("first failed", _first(found.first_failed)),
        ("fell with it", f"ranks {victims}{more}" if victims else ""),
        ("means", found.means),
        ("do", found.suggestion),
        ("retry", "worth it" if found.retryable else "the same job would fail again or has to be changed first"),
        ("avoid nodes", ", ".join(found.avoid_nodes)),
    ]


def _first(first: FirstFailed) -> str:
    if not first.known:
        return ""
    rank = "" if first.rank is None else f"rank {first.rank}"
    named = first.replica or ("" if first.node_rank is None else f"replica {first.node_rank}")
    node = f"on {first.node}" if first.node else ""
    code = "" if first.exit_code is None else f"exit code {first.exit_code}"
    return ", ".join(part for part in (rank, named, node, code, first.time) if part)


def _where(hit: Hit) -> str:
    if hit.source != "log":
        return hit.source
    who = hit.rank if hit.rank is not None else hit.node_rank
    return f"line {hit.number}" + ("" if who is None else f" rank {who}")
