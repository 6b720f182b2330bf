"""What a readiness issue of a replica means, in words, and what to do about it."""

from __future__ import annotations

# (part of the reason, part of the message, meaning); the first that fits counts, lower case
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    ("", "errimageneverpull", "the image is not on the node and may not be pulled: check the pull policy"),
    ("", "imagepullbackoff", "the image cannot be pulled: check its name and NGC_KEY"),
    ("", "errimagepull", "the image cannot be pulled: check its name and NGC_KEY"),
    ("", "failed to pull", "the image cannot be pulled: check its name and NGC_KEY"),
    ("imagepull", "", "the image cannot be pulled: check its name and NGC_KEY"),
    ("errimage", "", "the image cannot be pulled: check its name and NGC_KEY"),
    ("", "mount point not found", "a bad node: cancel, and submit again for another one"),
    ("", "secret not found", "a secret that the job refers to does not exist any more: submit again"),
    ("inprogress", "pulling image", "the image is being pulled: normal for large images"),
    ("inprogress", "", "the replica is starting"),
    ("nocapacity", "", "no free capacity: wait, or ask for another shape or node group"),
    ("queueing", "", "waiting in the queue: wait, or ask for another shape or node group"),
    ("unschedulable", "", "no node can take it: wait, or ask for less"),
    ("resources", "", "waiting for free resources"),
    ("configerror", "", "a bad node or a wrong setting: cancel and submit again; if it stays, change the settings"),
    ("createcontainerconfigerror", "", "a secret, variable or volume that the job names is missing"),
    ("systemerror", "", "the platform has a fault: wait, or submit again"),
    ("failed", "", "the replica could not start: check the image and NGC_KEY"),
)


def meaning_of(reason: str, message: str) -> str:
    """The meaning of a readiness issue; empty if there is none, and the message itself if it is unknown."""
    if not reason and not message:
        return ""
    low_reason, low_message = reason.lower(), message.lower()
    for part_of_reason, part_of_message, meaning in _MEANINGS:
        if part_of_reason in low_reason and part_of_message in low_message:
            return meaning
    return message or reason
