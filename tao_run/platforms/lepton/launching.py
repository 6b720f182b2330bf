"""Creating a job once: its secrets first, and what is left of them if it does not come to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tao_run.errors import BackendUnreachable, ProtocolError, RateLimited, TaoRunError, Unavailable
from tao_run.platforms.lepton.documents import part, word
from tao_run.platforms.lepton.workspace import both

if TYPE_CHECKING:
    from tao_run.credentials import Credentials
    from tao_run.platforms.base import Launch
    from tao_run.platforms.lepton.workspace import Workspace


def launch_job(workspace: Workspace, launch: Launch, credentials: Credentials, say: Callable[[str], None]) -> str:
    """Create the secrets and the job; returns its id.

    Raises BackendUnreachable and its kind if the job may exist: what it needs stays then. After any other error
    there is no job, and its secrets are removed again; `say` tells if they could not be.
    """
    try:
        _create_secrets(workspace, launch, credentials)
        created = _create_job(workspace, launch)
    except BackendUnreachable:
        raise
    except TaoRunError:
        for note in remove_secrets(workspace, launch.job.id):
            say(note)
        raise
    backend_id = word(part(created, "metadata").get("id")) if isinstance(created, dict) else ""
    if not backend_id:
        raise ProtocolError("Lepton accepted the job and did not say its id")
    return backend_id


def _create_secrets(workspace: Workspace, launch: Launch, credentials: Credentials) -> None:
    job_id = launch.job.id
    values = {source: credentials.value(source) for source in launch.secrets.values()}
    key = credentials.value("NGC_KEY") if launch.extra else ""
    try:
        both(
            lambda: workspace.create_secrets(job_id, values) if values else None,
            lambda: workspace.create_pull_secret(job_id, key) if key else None,
        )
    except BackendUnreachable as error:  # the job was not asked for yet: there is nothing to look for
        raise Unavailable(f"the job's secrets could not be made: {error.message}", error.hint) from None


def _create_job(workspace: Workspace, launch: Launch) -> Any:
    try:
        return workspace.sdk.create_job(launch.native)
    except RateLimited as error:  # an answer, and it says no
        raise Unavailable(f"{error.message}; the job was not created", f"{error.hint}, then submit again") from None


def remove_secrets(workspace: Workspace, job_id: str) -> list[str]:
    """Remove what was made for a job; returns a note for the user on each kind that is left."""
    kinds = {
        f"the job's secrets (TAO_RUN_{job_id}_...)": workspace.delete_secrets,
        f"the job's image pull secret (tao-run-{job_id})": workspace.delete_pull_secret,
    }
    notes = []
    for what, remove in kinds.items():
        try:
            remove(job_id)
        except TaoRunError as error:
            notes.append(f"{what} may still be in the workspace: {error.message}")
    return notes
