"""SLURM's job states and what each means here: one table, complete over the states of Slurm 20 to 25."""

from __future__ import annotations

from tao_run.jobs.model import JobState

# Names: `man squeue`, section JOB STATE CODES (22.05 to 25.05). PREEMPTED and NODE_FAIL are final only if the job is
# not requeued: `observe` decides that.
STATES: dict[str, tuple[JobState, str]] = {
    "BOOT_FAIL": (JobState.ERROR, "a node did not boot"),
    "CANCELLED": (JobState.CANCELED, "cancelled"),
    "COMPLETED": (JobState.COMPLETE, ""),
    "COMPLETING": (JobState.RUNNING, "finishing: processes or files are being cleaned up"),
    "CONFIGURING": (JobState.PENDING, "nodes are allocated and booting"),
    "DEADLINE": (JobState.ERROR, "the deadline passed before the job could finish"),
    "EXPEDITING": (JobState.PENDING, "requeued at once after a node failure"),
    "FAILED": (JobState.ERROR, "the job's command failed"),
    "LAUNCH_FAILED": (JobState.ERROR, "SLURM could not launch the job on its nodes"),
    "NODE_FAIL": (JobState.ERROR, "a node failed"),
    "OUT_OF_MEMORY": (JobState.ERROR, "the job used more host memory than it asked for"),
    "PENDING": (JobState.PENDING, "waiting in the queue"),
    "POWER_UP_NODE": (JobState.PENDING, "nodes are being powered up"),
    "PREEMPTED": (JobState.ERROR, "preempted by a job of higher priority"),
    "RECONFIG_FAIL": (JobState.ERROR, "nodes could not be reconfigured for the job"),
    "REQUEUED": (JobState.PENDING, "requeued: it will run again"),
    "REQUEUE_FED": (JobState.PENDING, "requeued by the federation"),
    "REQUEUE_HOLD": (JobState.PENDING, "requeued and held"),
    "RESIZING": (JobState.RUNNING, "changing its size"),
    "RESV_DEL_HOLD": (JobState.PENDING, "held: its reservation was deleted"),
    "REVOKED": (JobState.CANCELED, "another cluster of the federation took the job"),
    "RUNNING": (JobState.RUNNING, ""),
    "SIGNALING": (JobState.RUNNING, "being signalled"),
    "SPECIAL_EXIT": (JobState.PENDING, "requeued in the special exit state and held"),
    "STAGE_OUT": (JobState.RUNNING, "staging files out"),
    "STOPPED": (JobState.PAUSED, "stopped by a signal; it keeps its nodes"),
    "SUSPENDED": (JobState.PAUSED, "suspended; it gave its cores to other jobs"),
    "TIMEOUT": (JobState.ERROR, "the time limit ran out"),
    "UPDATE_DB": (JobState.PENDING, "being written to the accounting database"),
}

# The last incarnation ended this way, and a job that may be requeued gets another one.
REQUEUE_CAUSES = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED"})


def state_name(native: str) -> str:
    """The state's own name: without `by <uid>` (sacct) and completed when cut off with `+` (narrow columns)."""
    words = native.strip().split()
    name = words[0].upper() if words else ""
    if not name.endswith("+"):
        return name
    found = [state for state in STATES if state.startswith(name[:-1])]
    return found[0] if len(found) == 1 else name


def job_state(native: str) -> JobState:
    """Our state for SLURM's; a state that this table does not know is Unknown, never a failure."""
    known = STATES.get(state_name(native))
    return known[0] if known else JobState.UNKNOWN


def state_words(native: str) -> str:
    """The state in words for people; empty if its name says it all."""
    known = STATES.get(state_name(native))
    return known[1] if known else f"a state that is not known here: {native.strip()}"
