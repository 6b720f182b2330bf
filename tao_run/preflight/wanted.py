"""What is to be checked besides the request: GPU demands, annotation fields, limits, what to leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tao_run.errors import UsageError
from tao_run.jobs.commas import comma_parts

LOW_VRAM_GB = 50.0


@dataclass(frozen=True)
class Wanted:
    """Demands of a launch. Memory is in GiB, `timeout` in seconds per check; labels are keys of the inputs.

    `gpu_archs`, `target_gpu_count` and `target_gpu_memory_gb` say what the target has, where it cannot be asked.
    `skip` names checks by id, or by the first part of their ids.
    """

    json_required_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    json_sample_limit: int = 20
    effective_batch_limits: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    gpu_arch_allowlist: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    image_supported_sms: tuple[str, ...] = ()
    gpu_archs: tuple[str, ...] = ()
    gpu_min_count: int | None = None
    gpu_min_memory_gb: float | None = None
    gpu_min_total_memory_gb: float | None = None
    target_gpu_count: int | None = None
    target_gpu_memory_gb: tuple[float, ...] = ()
    low_vram_threshold_gb: float = LOW_VRAM_GB
    min_free_disk_gb: float = 1.0
    skip_platform_access: bool = False
    check_inputs: bool = True
    timeout: float = 30.0
    skip: tuple[str, ...] = ()


def labelled(items: Sequence[str], option: str, form: str = "LABEL=PATH") -> dict[str, str]:
    """`LABEL=VALUE` items as a mapping; a path alone is its own label. Raises UsageError for a label given twice."""
    found: dict[str, str] = {}
    for item in items:
        label, equals, value = (part.strip() for part in item.partition("="))
        if not equals or "/" in label:  # s3://bucket/a=b is a path, not a label
            label = value = item.strip()
        if not label or not value:
            raise UsageError(f"{option} {item!r}: something is missing", f"write {option} {form}")
        if found.get(label, value) != value:
            raise UsageError(f"{option}: the label {label!r} is given twice", "give each path its own label")
        found[label] = value
    return found


def labelled_lists(items: Sequence[str], option: str, form: str) -> dict[str, tuple[str, ...]]:
    """`LABEL=A,B` items; the same label may come again and adds to its list."""
    found: dict[str, tuple[str, ...]] = {}
    for item in items:
        label, equals, text = item.partition("=")
        values = tuple(comma_parts(text))
        if not equals or not label.strip() or not values:
            raise UsageError(f"{option} {item!r} is not {form}", f"write {option} {form}")
        found[label.strip()] = found.get(label.strip(), ()) + values
    return found


def batch_limits(items: Sequence[str], option: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """`LABEL=BATCH,SHARDS` items as pairs of positive integers by label."""
    form = "LABEL=BATCH,SHARDS"
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for item in items:
        ((label, values),) = labelled_lists([item], option, form).items()
        if len(values) != 2 or not all(value.isdecimal() and int(value) > 0 for value in values):
            raise UsageError(f"{option} {item!r}: two positive numbers are needed", f"write {option} {form}")
        found[label] = (*found.get(label, ()), (int(values[0]), int(values[1])))
    return found
