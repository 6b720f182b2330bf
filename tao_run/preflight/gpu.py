"""GPU checks: architecture against what an image was built for, counts and memory against what is demanded."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tao_run.errors import UsageError
from tao_run.jobs.model import Check
from tao_run.preflight.wanted import Wanted

# Compute capability (https://developer.nvidia.com/cuda-gpus) and memory in GiB by model, 0 where it has several sizes.
_MODELS: dict[str, tuple[str, float]] = {
    "v100": ("sm_70", 0), "t4": ("sm_75", 16), "a100": ("sm_80", 0), "a800": ("sm_80", 80), "a30": ("sm_80", 24),
    "a10": ("sm_86", 24), "a10g": ("sm_86", 24), "a16": ("sm_86", 16), "a40": ("sm_86", 48), "a6000": ("sm_86", 48),
    "l4": ("sm_89", 24), "l40": ("sm_89", 48), "l40s": ("sm_89", 48), "rtx4090": ("sm_89", 24),
    "h100": ("sm_90", 80), "h200": ("sm_90", 141), "h20": ("sm_90", 96), "gh200": ("sm_90", 96),
    "b200": ("sm_100", 180), "gb200": ("sm_100", 186), "b300": ("sm_103", 268), "gb300": ("sm_103", 279),
    "rtx5090": ("sm_120", 32), "pro6000": ("sm_120", 96),
}  # fmt: skip
# Images that are known to run on some architectures only, by a part of their name.
KNOWN_IMAGE_SMS: dict[str, tuple[str, ...]] = {
    "cosmos-rl": ("sm_80", "sm_90", "sm_100", "sm_103", "sm_103a", "sm_120"),
}
_SM = re.compile(r"^(?:sm_?|compute_)?(\d{2,3}|\d{1,2}\.\d)([af]?)$")
_MEMORY = re.compile(r"(\d{2,3})\s*-?gi?b", re.IGNORECASE)


@dataclass(frozen=True)
class Gpus:
    """The GPUs a job would get. `memory_gb` has one entry per GPU, `source` says how this is known."""

    archs: tuple[str, ...] = ()
    count: int | None = None
    memory_gb: tuple[float, ...] = ()
    source: str = ""


def normal_sm(text: str) -> str:
    """`9.0`, `90`, `sm_90`, `sm90`, `compute_90` -> `sm_90`. Raises UsageError for anything else."""
    match = _SM.match(text.strip().lower().replace("-", "_"))
    if match is None:
        raise UsageError(f"{text!r} is not a GPU architecture", "write sm_90, sm_103a, 90 or 9.0")
    return f"sm_{match.group(1).replace('.', '')}{match.group(2)}"


def supports(allowed: Iterable[str], arch: str) -> bool:
    """Whether one of `allowed` is the architecture or a variant (a, f) of it."""
    family = normal_sm(arch).rstrip("af")
    return any(normal_sm(candidate).rstrip("af") == family for candidate in allowed)


def gpus_named(text: str) -> tuple[str, float] | None:
    """Architecture and memory of the first GPU model named in `text` (`gpu.8xh100-sxm`, `gpu:a100:4`)."""
    words = [re.sub(r"^\d+x", "", word) for word in re.findall(r"[a-z0-9]+", text.lower())]
    for word in (*words, *(first + second for first, second in pairwise(words))):
        if word in _MODELS:
            arch, memory = _MODELS[word]
            said = _MEMORY.search(text)
            return arch, float(said.group(1)) if said else memory
    return None


def gpus_of_options(options: Mapping[str, Any], count: int) -> Gpus:
    """What a request's platform options say of the GPUs, if they name a model."""
    for text in _strings(options):
        found = gpus_named(text)
        if found:
            arch, memory = found
            return Gpus((arch,), count, (memory,) * count if memory else (), f"named by {text}")
    return Gpus(count=count)


def local_gpus(run: Callable[[list[str]], str | None] | None = None) -> Gpus:
    """The GPUs nvidia-smi shows on this machine."""
    query = ["nvidia-smi", "--query-gpu=compute_cap,memory.total", "--format=csv,noheader,nounits"]
    output = (run or _run)(query)
    rows = [line.split(",") for line in (output or "").splitlines() if "," in line]
    archs = tuple(dict.fromkeys(normal_sm(row[0]) for row in rows if _SM.match(row[0].strip())))
    memory = tuple(int(row[1]) / 1024 for row in rows if row[1].strip().isdecimal())
    return Gpus(archs, len(rows), memory, "nvidia-smi") if rows else Gpus()


def stated(wanted: Wanted, known: Gpus) -> Gpus:
    """`known`, with what the user says of the target on top."""
    count = wanted.target_gpu_count or known.count
    memory = wanted.target_gpu_memory_gb or known.memory_gb
    if len(memory) == 1 and count:
        memory = memory * count
    archs = tuple(normal_sm(arch) for arch in wanted.gpu_archs) or known.archs
    said = bool(wanted.gpu_archs or wanted.target_gpu_count or wanted.target_gpu_memory_gb)
    return Gpus(archs, count, memory, "as stated" if said else known.source)


def check_architecture(image: str | None, wanted: Wanted, target: Gpus) -> list[Check]:
    """The target's architectures against every allow-list: the user's and the one known for the image."""
    lists = dict(wanted.gpu_arch_allowlist)
    known = wanted.image_supported_sms or _known_sms(image)
    if known:
        lists.setdefault("image", known)
    return [_architecture(label, allowed, target, bool(wanted.gpu_arch_allowlist)) for label, allowed in lists.items()]


def check_size(wanted: Wanted, target: Gpus) -> list[Check]:
    """Counts and memory against the demands; little memory is a warning."""
    checks = []
    if wanted.gpu_min_count is not None:
        checks.append(_count(wanted.gpu_min_count, target))
    if wanted.gpu_min_memory_gb is not None:
        checks.append(_memory(wanted.gpu_min_memory_gb, wanted.gpu_min_count or 1, target))
    if wanted.gpu_min_total_memory_gb is not None:
        checks.append(_total(wanted.gpu_min_total_memory_gb, target))
    low = [size for size in target.memory_gb if size < wanted.low_vram_threshold_gb]
    if low:
        checks.append(
            Check(
                "gpu.low-vram",
                "ok",
                f"{len(low)} GPUs have {min(low):.0f} GiB, less than {wanted.low_vram_threshold_gb:g} GiB",
                "large models may run out of memory: lower the batch size, or take larger GPUs",
            )
        )
    return checks


def _known_sms(image: str | None) -> tuple[str, ...]:
    return next((sms for part, sms in KNOWN_IMAGE_SMS.items() if part in (image or "").lower()), ())


def _architecture(label: str, allowed: Sequence[str], target: Gpus, demanded: bool) -> Check:
    check_id, listed = f"gpu.architecture.{label}", ", ".join(normal_sm(arch) for arch in allowed)
    if not target.archs:
        detail = f"runs on {listed}; the target's GPUs are not known"
        return Check(check_id, "failed" if demanded else "skipped", detail, "say them with --gpu-arch")
    wrong = [arch for arch in target.archs if not supports(allowed, arch)]
    if wrong:
        return Check(
            check_id,
            "failed",
            f"{', '.join(wrong)} ({target.source}) is not among {listed}",
            "choose GPUs of a listed architecture, or another image",
        )
    return Check(check_id, "ok", f"{', '.join(target.archs)} ({target.source}) is among {listed}")


def _count(least: int, target: Gpus) -> Check:
    if target.count is None:
        return _unknown("gpu.count", f"at least {least} GPUs", "--target-gpu-count")
    detail = f"{target.count} GPUs, at least {least} needed"
    if target.count >= least:
        return Check("gpu.count", "ok", detail)
    return Check("gpu.count", "failed", detail, "ask for more with --gpus or --nodes")


def _memory(least: float, count: int, target: Gpus) -> Check:
    if not target.memory_gb:
        return _unknown("gpu.memory", f"{least:g} GiB per GPU", "--target-gpu-memory-gb")
    enough = [size for size in target.memory_gb if size >= least]
    detail = f"{len(enough)} of {len(target.memory_gb)} GPUs have {least:g} GiB ({target.source}), {count} needed"
    if len(enough) >= count:
        return Check("gpu.memory", "ok", detail)
    return Check("gpu.memory", "failed", detail, "choose GPUs with more memory")


def _total(least: float, target: Gpus) -> Check:
    if not target.memory_gb:
        return _unknown("gpu.total-memory", f"{least:g} GiB in all", "--target-gpu-memory-gb")
    total = sum(target.memory_gb)
    detail = f"{total:.0f} GiB in all ({target.source}), {least:g} GiB needed"
    if total >= least:
        return Check("gpu.total-memory", "ok", detail)
    return Check("gpu.total-memory", "failed", detail, "ask for more or larger GPUs")


def _unknown(check_id: str, demand: str, option: str) -> Check:
    return Check(check_id, "failed", f"{demand} needed; the target's GPUs are not known", f"say them with {option}")


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(item)
            yield str(key)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def _run(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None  # a driver that does not answer shows no GPU
    return answer.stdout if answer.returncode == 0 else None
