"""Applies the rules to a log, to what a backend knows, or to both."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from tao_run.analysis import facts, verdict
from tao_run.analysis.hits import TIRED, Finding, Hit
from tao_run.analysis.ranks import LITERALS, NOWHERE, RankStory, rank_of
from tao_run.analysis.result import AlsoSeen, FailureAnalysis, FirstFailed
from tao_run.analysis.ruleset import ErrClass, Rule, RuleSet, packaged_rules
from tao_run.analysis.scan import Candidate, Matcher, Prefilter, batches, blocks
from tao_run.jobs.model import Evidence, JobState, LogLine
from tao_run.redact import redact

_CHAINED = (
    "During handling of the above exception, another exception occurred",
    "The above exception was the direct cause of the following exception",
)
_EVIDENCE_LINES = 6
_Fit = tuple[Rule, Mapping[str, str] | None]
_ALSO_SEEN = 5


class Analyzer:
    """Collects findings from any number of sources in bounded memory, then draws the conclusion."""

    def __init__(self, rules: RuleSet | None = None) -> None:
        self.rules = rules or packaged_rules()
        self.findings: dict[str, Finding] = {}
        self.story = RankStory()
        self.lines = 0
        self._tired: set[str] = set()
        self._matcher = Matcher(self.rules)
        self._prefilter = Prefilter({*self._matcher.by_literal, *LITERALS, *_CHAINED})
        self._chain_marks: deque[int] = deque(maxlen=64)

    def read_file(self, stream: BinaryIO) -> None:
        """Look through a saved log of any size."""
        for block in blocks(stream):
            for candidate in self._prefilter.candidates(block):
                self._look(candidate, None)
            self.lines += block.count(b"\n")

    def read_lines(self, lines: Iterable[LogLine]) -> None:
        """Look through the lines of a job's log as they come."""
        for block, batch in batches(lines):
            for candidate in self._prefilter.candidates(block):
                self._look(candidate, batch[candidate.index])
            self.lines += len(batch)

    def read_evidence(self, evidence: Evidence) -> None:
        """Look at what the backend knows, the end of the log included."""
        self.read_lines(line for line in evidence.log_tail if line.kind == "line")
        self.story.replicas = facts.replica_ends(evidence)
        started = facts.has_started(evidence)
        for hit, current in facts.backend_hits(evidence, started=started):
            self._look_at_fact(hit, current)
        for hit, code in facts.exit_hits(evidence):
            self._add_all((rule for rule in self.rules if code in rule.exit), hit)
        known = facts.numbers(evidence)
        for rule in self.rules:
            for name, least in rule.at_least.items():
                if known.get(name, -1.0) >= least:
                    self._add(rule, Hit(f"{name}: {known[name]:g}", source="fact"))

    def _look(self, candidate: Candidate, line: LogLine | None) -> None:
        number = self.lines + candidate.index + 1
        text = candidate.text
        self.story.see(text, NOWHERE if line is None else (line.rank, line.replica))
        if text.startswith(_CHAINED):
            self._chain_marks.append(number)
            return
        hit: Hit | None = None
        for rule, details in self._own(self._matcher.match(candidate, self._tired)):
            if details is None:
                self.findings[rule.id].unread.append((number, text, line))
                continue
            hit = hit or _hit(text, number, line)
            self._add(rule, replace(hit, details=details) if details else hit)

    @staticmethod
    def _own(fits: Iterable[_Fit]) -> list[_Fit]:
        """Without the rules for any exception, where the line says that the process is a victim."""
        found = list(fits)
        told = any(rule.victim for rule, _ in found)
        return [fit for fit in found if not (told and fit[0].id in verdict.FINAL)]

    def _read_the_rest(self) -> None:
        """Of rules that fit so often that they were no longer looked at, find the last true hit."""
        for finding in self.findings.values():
            for number, text, line in reversed(finding.unread):
                found = [pattern.details(text) for pattern in finding.rule.patterns("log")]
                details = next((item for item in found if item is not None), None)
                if details is not None:
                    finding.add(replace(_hit(text, number, line), details=details))
                    break
            finding.unread.clear()

    def _look_at_fact(self, hit: Hit, current: bool) -> None:
        for rule in self.rules:
            if rule.before_start and not current:
                continue
            found = [pattern.fact_details(hit.text) for pattern in rule.patterns("backend")]
            details = next((item for item in found if item is not None), None)
            if details is not None:
                self._add(rule, replace(hit, details=details, text=redact(hit.text)))

    def _add_all(self, rules: Iterable[Rule], hit: Hit) -> None:
        for rule in rules:
            self._add(rule, hit)

    def _add(self, rule: Rule, hit: Hit) -> None:
        finding = self.findings.setdefault(rule.id, Finding(rule))
        finding.add(hit)
        if finding.count >= TIRED:
            self._tired.add(rule.id)

    def conclude(self, evidence: Evidence | None = None) -> FailureAnalysis | None:
        """The analysis, or None if nothing that looks like a failure was seen."""
        self._read_the_rest()
        chosen = verdict.choose(self.findings.values(), self.lines, list(self._chain_marks), self.story)
        native = None if evidence is None else evidence.native
        if chosen is None:
            return _from_native(native, evidence) or _unexplained(evidence, self.story)
        fallen = verdict.fallen_ranks(self.findings.values())
        first = verdict.first_failed(chosen, self.story, fallen)
        details = dict(verdict.cause(chosen, self.story, fallen).details)
        result = FailureAnalysis(
            rule=chosen.rule.id,
            title=chosen.rule.title,
            category=chosen.rule.category,
            err_class=chosen.rule.err_class,
            certainty=chosen.rule.certainty,
            means=verdict.fill(chosen.rule.means, details),
            suggestion=verdict.fill(chosen.rule.do, details),
            retryable=chosen.rule.retryable,
            evidence=tuple(self._evidence_of(chosen)),
            first_failed=first,
            victims=verdict.victims(first, self.story, fallen),
            avoid_nodes=_bad_nodes(chosen, first),
            details=details,
            also_seen=tuple(self._others(chosen)),
            node_events=_node_events(evidence),
            native=native,
        )
        return _prefer_native(result, native)

    def _evidence_of(self, chosen: Finding) -> list[Hit]:
        lines = list(chosen)[:_EVIDENCE_LINES]
        return [replace(hit, text=redact(hit.text.rstrip())) for hit in lines]

    def _others(self, chosen: Finding) -> list[AlsoSeen]:
        shown = {hit.text for hit in chosen}
        others = [item for item in self.findings.values() if item.first[0].text not in shown]
        others.sort(key=lambda item: (item.rule.strength, item.first[0].number))
        return [
            AlsoSeen(item.rule.id, item.rule.title, item.count, redact(item.first[0].text.strip())[:200])
            for item in others[:_ALSO_SEEN]
        ]


def analyze(evidence: Evidence, lines: Iterable[LogLine] | None = None) -> FailureAnalysis | None:
    """Why a job failed or waits. `lines` is more of its log than the tail that the evidence holds.

    None if the job is complete, or alive and nothing is wrong with it.
    """
    if evidence.status.state is JobState.COMPLETE:
        return None
    analyzer = Analyzer()
    if lines is not None:
        analyzer.read_lines(line for line in lines if line.kind == "line")
        evidence = replace(evidence, log_tail=())
    analyzer.read_evidence(evidence)
    return analyzer.conclude(evidence)


def analyze_log(stream: BinaryIO) -> FailureAnalysis | None:
    """Why the job that wrote a saved log failed; None if no rule fits."""
    analyzer = Analyzer()
    analyzer.read_file(stream)
    return analyzer.conclude()


def _hit(text: str, number: int, line: LogLine | None) -> Hit:
    rank = rank_of(text)
    if line is None:
        return Hit(text, number, rank=rank)
    return Hit(text, number, time=line.time, rank=rank, node_rank=line.rank, replica=line.replica)


def _bad_nodes(chosen: Finding, first: FirstFailed) -> tuple[str, ...]:
    if not chosen.rule.bad_node:
        return ()
    named = [hit.details.get("node") or hit.node for hit in chosen]
    return tuple(dict.fromkeys(name for name in (*named, first.node) if name))


def _node_events(evidence: Evidence | None) -> tuple[dict[str, Any], ...]:
    if evidence is None:
        return ()
    native = (evidence.native or {}).get("job_failure_by_node_event") or []
    told = [dict(item) for item in native if isinstance(item, dict)]
    seen = [
        {
            "node_event_name": event.name,
            "message": redact(event.message),
            "node": event.node,
            "time": None if event.time is None else event.time.isoformat(),
            "count": event.count,
        }
        for event in evidence.events
        if event.warning
    ]
    return tuple(told or seen)


def _native_class(native: Any) -> ErrClass | None:
    given = str((native or {}).get("err_class") or "")
    return given if given in ("ERR_PROGRAM", "ERR_INFRA", "ERR_CONFIG") else None  # type: ignore[return-value]


def _prefer_native(result: FailureAnalysis, native: Any) -> FailureAnalysis:
    """Where our rules only know that something failed, the backend's own word counts.

    Against an exception of the program it needs an event of a node.
    """
    given = _native_class(native)
    if given is None or result.certainty != "unknown":
        return result
    if result.rule in verdict.FINAL and not native.get("job_failure_by_node_event"):
        return result
    suggestion = redact(str(native.get("suggestion") or "")) or result.suggestion
    return replace(result, err_class=given, suggestion=suggestion, retryable=given == "ERR_INFRA")


def _from_native(native: Any, evidence: Evidence | None) -> FailureAnalysis | None:
    given = _native_class(native)
    if given is None:
        return None
    return FailureAnalysis(
        rule="backend",
        title="The backend's own analysis",
        category="backend",
        err_class=given,
        certainty="likely",
        means="The backend classified the failure itself.",
        suggestion=redact(str(native.get("suggestion") or "")),
        retryable=given == "ERR_INFRA",
        node_events=_node_events(evidence),
        native=native,
    )


def _unexplained(evidence: Evidence | None, story: RankStory) -> FailureAnalysis | None:
    if evidence is None or evidence.status.state is not JobState.ERROR:
        return None
    status = evidence.status
    text = ": ".join(filter(None, (status.reason, status.message))) or "the backend gives no reason"
    return FailureAnalysis(
        rule="unexplained",
        title="Failed for an unknown reason",
        category="process",
        err_class="ERR_PROGRAM",
        certainty="unknown",
        means=redact(f"No rule fits: {text}."),
        suggestion="Read the end of the log (`tao-run logs JOB --tail 200`) and the events of the backend.",
        retryable=False,
        first_failed=(first := verdict.first_replica(story)),
        victims=verdict.victims(first, story, set()),
        node_events=_node_events(evidence),
    )
