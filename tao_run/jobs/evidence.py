"""What is known of a job for analysis: from its backend, or from the record when the backend never had it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from tao_run.jobs.model import Evidence, Job, JobState

if TYPE_CHECKING:
    from tao_run.platforms.base import Platform


def evidence_of(platform: Platform, job: Job, now: datetime) -> Evidence:
    """The backend's evidence, with how long the job has been waiting. Raises what `Platform.evidence` raises."""
    if job.backend_id is None:
        return _waiting(Evidence(job.status), job, now)
    return _waiting(platform.evidence(job), job, now)


def _waiting(evidence: Evidence, job: Job, now: datetime) -> Evidence:
    """An adapter that knows since when the job could have started has said so; else submission counts."""
    if evidence.status.state is not JobState.PENDING or "pending_minutes" in evidence.facts:
        return evidence
    minutes = max(0.0, (now - job.created_at).total_seconds() / 60)
    return replace(evidence, facts={**evidence.facts, "pending_minutes": f"{minutes:.1f}"})
