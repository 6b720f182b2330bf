"""Why a job is waiting: SLURM's PENDING reasons in words, with what to do and whether it can start by itself."""

from __future__ import annotations

import re
from typing import NamedTuple


class Reason(NamedTuple):
    """A PENDING reason: what it means, what to do, and whether the job waits in vain as it is (`stuck`)."""

    words: str
    advice: str
    stuck: bool = False


_WAIT = "nothing to do: it starts by itself"
_ADMIN = "ask the cluster's administrators"
_RESUBMIT = "cancel it and submit with"

# Names: src/common/job_state_reason.c of Slurm 25.05; limits (QOS..., Assoc..., Max...PerAccount) follow a grammar
# and are put in words by `_limit`.
REASONS: dict[str, Reason] = {
    "None": Reason("the scheduler has not looked at it yet", _WAIT),
    "Prolog": Reason("the nodes run their prolog", _WAIT),
    "Priority": Reason(
        "jobs of higher priority are before it", "wait, or choose a partition or QOS of higher priority"
    ),
    "Dependency": Reason("it waits for another job to end", _WAIT),
    "Resources": Reason("no nodes are free for it now", "wait, or ask for fewer nodes or GPUs or a shorter time"),
    "PartitionNodeLimit": Reason("it asks for more nodes than the partition allows", f"{_RESUBMIT} fewer nodes", True),
    "PartitionTimeLimit": Reason(
        "its time limit is above the partition's", f"{_RESUBMIT} a shorter time or another partition", True
    ),
    "PartitionDown": Reason("the partition is down", "choose another partition, or wait until it is up"),
    "PartitionInactive": Reason("the partition takes no jobs", "choose another partition"),
    "PartitionConfig": Reason(
        "the partition cannot run it as asked", f"{_RESUBMIT} fewer nodes or another partition", True
    ),
    "JobHeldAdmin": Reason("an administrator holds it", _ADMIN, True),
    "JobHeldUser": Reason("it is held by its owner", "release it: scontrol release JOB", True),
    "BeginTime": Reason("its start time has not come (a requeued job waits two minutes)", _WAIT),
    "Licenses": Reason("its licenses are in use", _WAIT),
    "Reservation": Reason("its reservation has not begun", _WAIT),
    "ReservationDeleted": Reason("its reservation was deleted", f"{_RESUBMIT} another reservation", True),
    "ReservationInvalid": Reason("its reservation cannot be used", f"{_RESUBMIT} another reservation", True),
    "ReqNodeNotAvail": Reason(
        "nodes that it needs are down, drained or reserved", "wait, or submit without naming nodes"
    ),
    "FrontEndDown": Reason("the front end is down", _ADMIN),
    "SchedDefer": Reason("an immediate start was asked for and could not be given", _WAIT),
    "NodeDown": Reason("a node that it needs is down", "wait, or submit without naming nodes"),
    "BadConstraints": Reason("no node has what it asks for", f"{_RESUBMIT} another constraint or GPU type", True),
    "Constraints": Reason("no node has what it asks for", f"{_RESUBMIT} another constraint or GPU type", True),
    "SystemFailure": Reason("SLURM had a failure of its own", _ADMIN),
    "JobLaunchFailure": Reason("its launch failed on a node; it is held", "scontrol release JOB", True),
    "NonZeroExitCode": Reason("it exited with an error", "see its log"),
    "RaisedSignal": Reason("it was ended by a signal", "see its log"),
    "TimeLimit": Reason("its time limit ran out", "submit with a longer time, or resume from a checkpoint"),
    "InactiveLimit": Reason("it reached the system's inactive limit", _ADMIN),
    "OutOfMemory": Reason("it used more host memory than it asked for", "submit with more memory (`-o mem=...`)"),
    "DeadLine": Reason("its deadline passed", "submit again with a later deadline", True),
    "InvalidAccount": Reason("its account is not valid", f"{_RESUBMIT} an account of yours", True),
    "InvalidQOS": Reason("its QOS is not valid", f"{_RESUBMIT} a QOS of yours", True),
    "QOSNotAllowed": Reason("the partition does not take this QOS", f"{_RESUBMIT} another QOS or partition", True),
    "AccountNotAllowed": Reason("the partition does not take this account", f"{_RESUBMIT} another account", True),
    "QOSUsageThreshold": Reason("the QOS' usage threshold is reached", "wait, or choose another QOS"),
    "AccountingPolicy": Reason("an accounting limit forbids it", "sacctmgr show assoc user=$USER lists the limits"),
    "DependencyNeverSatisfied": Reason(
        "the job that it waits for ended the wrong way", "cancel it; look at that job first", True
    ),
    "Cleaning": Reason("it was requeued and its former run is being cleaned up", _WAIT),
    "JobHoldMaxRequeue": Reason("it was requeued too often and is held", "see its log; scontrol release JOB", True),
    "JobArrayTaskLimit": Reason("its array already runs as many tasks as allowed", _WAIT),
    "BurstBufferResources": Reason("the burst buffer is full", _WAIT),
    "BurstBufferStageIn": Reason("the burst buffer is being filled", _WAIT),
    "BurstBufferOperation": Reason("a burst buffer operation failed", _ADMIN, True),
    "PowerNotAvail": Reason("there is not enough power", _WAIT),
    "PowerReserved": Reason("power is reserved for other jobs", _WAIT),
    "FedJobLock": Reason("the federation decides which cluster starts it", _WAIT),
    "MaxMemPerLimit": Reason("it asks for more memory per CPU or node than allowed", f"{_RESUBMIT} less memory", True),
    "AssociationJobLimit": Reason("the account's limit of jobs is reached", "wait for other jobs to end"),
    "AssociationResourceLimit": Reason("the account's limit of resources is reached", "wait for other jobs to end"),
    "AssociationTimeLimit": Reason("the account's time is used up", _ADMIN),
    "QOSJobLimit": Reason("the QOS' limit of jobs is reached", "wait for other jobs to end"),
    "QOSResourceLimit": Reason("the QOS' limit of resources is reached", "wait, or choose another QOS"),
    "QOSTimeLimit": Reason("the QOS' time is used up", "choose another QOS"),
}

_LIMIT = re.compile(
    r"(?P<owner>QOS|Assoc|)(?P<kind>Grp|Max|Min)"
    r"(?P<what>CPU|Cpu|GRES|Memory|Mem|Node|SubmitJobs|SubmitJob|Jobs|WallDuration|Wall|License|BB|Energy|Billing|Unknown)"
    r"(?P<minutes>RunMinutes|Minutes|)(?P<scope>PerJob|PerNode|PerUser|PerAccount|)(?:Limit|NotSatisfied|)"
)
_WHAT = {
    "CPU": "CPUs",
    "Cpu": "CPUs",
    "GRES": "GPUs",
    "Memory": "memory",
    "Mem": "memory",
    "Node": "nodes",
    "SubmitJobs": "submitted jobs",
    "SubmitJob": "submitted jobs",
    "Jobs": "jobs",
    "WallDuration": "time",
    "Wall": "time",
    "License": "licenses",
    "BB": "burst buffer space",
    "Energy": "energy",
    "Billing": "billing units",
    "Unknown": "a resource",
}
_SCOPE = {"PerJob": "per job", "PerNode": "per node", "PerUser": "per user", "PerAccount": "per account", "": "in all"}


# Where SLURM has more to say it prints a sentence in place of the name.
_SENTENCES = (
    ("Nodes required for job are DOWN", "ReqNodeNotAvail"),
    ("launch failed requeued held", "JobLaunchFailure"),
    ("job requeued in special exit state", "JobHeldUser"),
    ("job requeued in held state", "JobHeldUser"),
)


def reason_name(native: str) -> str:
    """The name of a reason as squeue prints it: without its list of nodes, and for a known sentence its name."""
    text = native.strip().strip("()")
    spoken = next((name for sentence, name in _SENTENCES if text.lower().startswith(sentence.lower())), None)
    return spoken or text.split(",")[0].strip()


def explain(native: str) -> Reason:
    """A PENDING reason, as squeue prints it, in words. A reason that is not known is given as it is."""
    name = reason_name(native)
    known = REASONS.get(name) or _limit(name)
    return known or Reason(f"SLURM says {native.strip()}", "scontrol show job JOB says more")


def _limit(name: str) -> Reason | None:
    """Reasons of the form owner, kind, resource, minutes, scope: `QOSMaxGRESPerUser`, `AssocGrpCPURunMinutesLimit`."""
    match = _LIMIT.fullmatch(name)
    if not match:
        return None
    owner = "the QOS" if match["owner"] == "QOS" or not match["owner"] else "the account"
    other = "another QOS" if owner == "the QOS" else "another account"
    what = _WHAT[match["what"]] + (" minutes" if match["minutes"] else "")
    if match["kind"] == "Min":
        return Reason(f"{owner} demands more {what} than it asks for", f"{_RESUBMIT} more, or {other}", True)
    if match["scope"] in ("PerJob", "PerNode") or match["what"] == "WallDuration":
        scope = _SCOPE[match["scope"] or "PerJob"]
        return Reason(f"it asks for more {what} than {owner} allows {scope}", f"{_RESUBMIT} less, or {other}", True)
    words = f"{owner} allows no more {what} {_SCOPE[match['scope']]} at a time"
    return Reason(words, f"wait for other jobs to end, or choose {other}")
