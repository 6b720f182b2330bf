"""The lines around the first failure of a job, of the replica that failed first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tao_run.jobs.model import LogLine
from tao_run.redact import redact

if TYPE_CHECKING:
    from tao_run.analysis import FailureAnalysis

BEFORE = 40
AFTER = 60
_COMPARED = 400  # characters of the line that are compared: what was found may have been cut


def replica_of(analysis: FailureAnalysis) -> str | None:
    """The replica that failed first, as a log query names it; None for all of them."""
    first = analysis.first_failed
    if first.node_rank is not None:
        return str(first.node_rank)
    return first.replica or None


def around_failure(
    lines: Iterable[LogLine], analysis: FailureAnalysis, before: int = BEFORE, after: int = AFTER
) -> Iterator[LogLine]:
    """`before` lines, the first line of the evidence, and `after` lines; the end of the log if no line is known.

    Holds no more than `before + after` lines in memory.
    """
    wanted = next((hit.text.strip()[:_COMPARED] for hit in analysis.evidence if hit.source == "log"), None)
    stream = iter(lines)
    held: deque[LogLine] = deque(maxlen=before + after)
    for line in stream:
        held.append(line)
        if wanted is not None and wanted in redact(line.text):
            yield from list(held)[-before - 1 :]
            yield from islice(stream, after)
            return
    yield LogLine("the line of the failure is not in the log any more; this is its end", kind="note")
    yield from held
