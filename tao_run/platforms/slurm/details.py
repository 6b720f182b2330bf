"""What is known of one job: its ranks with nodes and exit codes, and the evidence for analysis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tao_run.jobs.model import Evidence, Job, JobState, JobStatus, LogLine, NodeEvent, Replica
from tao_run.platforms.slurm.cluster import shell_path
from tao_run.platforms.slurm.nodelist import expand
from tao_run.platforms.slurm.observe import poll
from tao_run.platforms.slurm.reasons import explain
from tao_run.platforms.slurm.remote import Answer, Remote
from tao_run.platforms.slurm.tables import moment

# Each task left `exit-code time` under its rank. Nodes come from the queue, later from accounting.
_RANKS = """\
export SLURM_TIME_FORMAT=%s
cd {directory} 2>/dev/null && section ranks grep -sH '' ranks/*
section queue squeue -h -t all -j {job} -O 'JobID:|,Name:|,NodeList:|,Partition:|,tres-alloc:|,Reason:|'
section past sacct -n -P -S {since} -j {job} --format=JobID,JobName,State,ExitCode,NodeList,AllocTRES,MaxRSS,Reason
"""
_SHOW = "section show scontrol show job -o {job}\n"

_FACTS = ("Partition", "Account", "QOS", "TimeLimit", "RunTime", "Restarts", "NodeList", "BatchHost", "Command")
_STEP_TROUBLE = ("OUT_OF_MEMORY", "FAILED", "NODE_FAIL", "TIMEOUT", "PREEMPTED", "BOOT_FAIL")
# srun: error: node2: task 1: Exited with exit code 3
_SRUN_ERROR = re.compile(
    r"^(?:srun|slurmstepd|slurmd)[^:]*: error: (?:(?P<node>[\w.-]+): tasks? (?P<task>\d+)[^:]*: )?(?P<words>.*)"
)
# What SLURM says when it ends the other ranks after one has failed (--kill-on-bad-exit)
_ENDED_WITH_IT = re.compile(
    r"^(slurmstepd\S*: error: \*\*\* STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*"
    r"|srun\S*: error: [\w.-]+: tasks? [\d,-]+: (Terminated|Killed)\b)"
)


def replicas(remote: Remote, job: Job, now: datetime) -> list[Replica]:
    """One replica per node, by rank: where it runs, its exit code if it has ended, why it is not running."""
    status = poll(remote, [job], now)[job.id]
    return _replicas(job, status, remote.run(_script(remote, job)))


def _script(remote: Remote, job: Job) -> str:
    directory = shell_path(remote.cluster.job_dir(job.name))
    since = (job.created_at - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
    return _RANKS.format(directory=directory, job=job.backend_id, since=since)


def _replicas(job: Job, status: JobStatus, answer: Answer) -> list[Replica]:
    nodes, partition = _nodes(job, answer)
    codes = _exit_codes(answer)
    return [_replica(rank, job, status, nodes, partition, codes.get(rank)) for rank in range(job.nodes)]


def _replica(rank: int, job: Job, status: JobStatus, nodes: Sequence[str], partition: str, code: int | None) -> Replica:
    waiting = status.state is JobState.PENDING
    phase = status.state.value if code is None else ("Complete" if code == 0 else "Error")
    return Replica(
        rank=rank,
        name=f"rank-{rank}",
        node=nodes[rank] if rank < len(nodes) else "",
        node_group=partition,
        phase=phase,
        ready=status.state is JobState.RUNNING and code is None,
        exit_code=code,
        issue_reason=status.reason if waiting else "",
        issue_message=status.message if waiting else "",
    )


def _nodes(job: Job, answer: Answer) -> tuple[list[str], str]:
    for line in answer["queue"].out.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 4 and cells[1] == job.name:
            return expand(cells[2]), cells[3]
    for cells in _accounting(answer):
        if cells[1] == job.name:
            return expand(cells[4]), ""
    return [], ""


def _accounting(answer: Answer) -> list[list[str]]:
    rows = [line.split("|") for line in answer["past"].out.splitlines()]
    return [row for row in rows if len(row) == 8]


def _exit_codes(answer: Answer) -> dict[int, int]:
    codes = {}
    for line in answer["ranks"].out.splitlines() if "ranks" in answer else ():
        match = re.fullmatch(r"ranks/(\d+):(\d+) [\d.]+", line)
        if match:
            codes[int(match[1])] = int(match[2])
    return codes


def evidence(remote: Remote, job: Job, now: datetime, log_tail: tuple[LogLine, ...]) -> Evidence:
    """What SLURM and the job's files say of how it went."""
    status = poll(remote, [job], now)[job.id]
    answer = remote.run(_script(remote, job) + _SHOW.format(job=job.backend_id))
    shown = _shown(answer)
    facts = {key.lower(): shown[key] for key in _FACTS if shown.get(key) not in (None, "", "(null)")}
    facts |= _pending_facts(status, shown, now)
    log_tail = _without_victims(log_tail, _exit_codes(answer))
    for cells in _accounting(answer):
        if cells[6]:
            facts[f"max_rss_{cells[0].partition('.')[2] or 'job'}"] = cells[6]
    return Evidence(
        status=status,
        replicas=tuple(_replicas(job, status, answer)),
        events=(*_step_events(answer), *_srun_events(log_tail)),
        log_tail=tuple(replace(line, kind="line") for line in log_tail),  # SLURM's words are evidence too
        facts=facts,
    )


def _without_victims(lines: tuple[LogLine, ...], codes: Mapping[int, int]) -> tuple[LogLine, ...]:
    """If a rank failed by itself, that the others were ended is no evidence of a cause."""
    if not any(0 < code <= 128 for code in codes.values()):
        return lines
    return tuple(line for line in lines if not _ENDED_WITH_IT.match(line.text))


def _shown(answer: Answer) -> dict[str, str]:
    """`Key=value` pairs of `scontrol show job -o`; values there have no spaces in what is used here."""
    return dict(word.split("=", 1) for word in answer["show"].out.split() if "=" in word)


def _pending_facts(status: JobStatus, shown: Mapping[str, str], now: datetime) -> dict[str, str]:
    if status.state is not JobState.PENDING:
        return {}
    facts = {"pending_reason": status.reason, "stuck": "yes" if explain(status.reason).stuck else "no"}
    eligible = moment(shown.get("EligibleTime", "")) or moment(shown.get("SubmitTime", ""))
    if eligible:
        facts["pending_minutes"] = f"{max(0.0, (now - eligible).total_seconds()) / 60:.1f}"
    return facts


def _step_events(answer: Answer) -> list[NodeEvent]:
    """Steps that ended badly: their state is more exact than the job's (a step out of memory fails the job)."""
    events = []
    for job_id, _, state, code, nodes, _, peak, reason in _accounting(answer):
        if "." in job_id and state.startswith(_STEP_TROUBLE):
            memory = f", {peak} at most" if peak else ""
            because = f", {reason}" if reason not in ("", "None") else ""
            words = f"step {job_id.partition('.')[2]} ended with {code}{memory}{because}"
            events.append(NodeEvent(state, words, node=nodes))
    return events


def _srun_events(log_tail: Sequence[LogLine]) -> list[NodeEvent]:
    found = [match for line in log_tail if line.kind == "note" and (match := _SRUN_ERROR.match(line.text))]
    return [NodeEvent("srun", match["words"], node=match["node"] or "") for match in found[:50]]
