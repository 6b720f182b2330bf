"""The labels by which our jobs are found again in a workspace."""

from __future__ import annotations

#: the job's own id
LABEL = "tao-run"
#: the group of parallel jobs that it belongs to
GROUP_LABEL = "tao-run-group"
SPLIT_LABEL = "tao-run-split"
