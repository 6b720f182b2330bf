"""What runs around a job's script in the container: pure bash, nothing is fetched at run time.

It translates Lepton's worker variables for torch and TAO. The names and the address scheme
`<prefix>-<index>.<subdomain>` are those of Lepton's own translation script (github.com/leptonai/scripts,
lepton_env_to_pytorch.sh, of 2025-07-21). WORLD_SIZE is the number of nodes, as TAO containers read it; torchrun
sets its own for the processes it starts. And it writes how the script ended into the log (see `ends`): Lepton
tells no exit code.
"""

from __future__ import annotations

from dataclasses import dataclass

MASTER_PORT = 29400
_PART = "TAO_RUN_PAYLOAD_PART_"
_PART_BYTES = 96 * 1024  # the kernel takes 128 KiB per variable
_MOST_PARTS = 8
_KILL_AFTER = 30  # seconds between the polite and the final signal at the time limit

_TRANSLATE = """\
: "${LEPTON_JOB_TOTAL_WORKERS:=1}" "${LEPTON_JOB_WORKER_INDEX:=0}" "${LEPTON_JOB_WORKER_PREFIX:=worker}"
export NNODES=$LEPTON_JOB_TOTAL_WORKERS NODE_RANK=$LEPTON_JOB_WORKER_INDEX
export WORLD_SIZE=$NNODES MASTER_PORT=${MASTER_PORT:-%(port)d} MASTER_ADDR=127.0.0.1 WORKER_ADDRS=
if [ "$NNODES" -gt 1 ]; then
  MASTER_ADDR=$LEPTON_JOB_WORKER_PREFIX-0.$LEPTON_SUBDOMAIN
  for ((TAO_RUN_I = 1; TAO_RUN_I < NNODES; TAO_RUN_I++)); do
    WORKER_ADDRS=$WORKER_ADDRS${WORKER_ADDRS:+,}$LEPTON_JOB_WORKER_PREFIX-$TAO_RUN_I.$LEPTON_SUBDOMAIN
  done
fi
export NUM_GPU_PER_NODE=%(gpus)s
"""

_UNPACK = """\
TAO_RUN_PAYLOAD=$(mktemp) || exit 1
printf %%s "%(parts)s" | base64 -d > "$TAO_RUN_PAYLOAD" || exit 1
export TAO_RUN_PAYLOAD
unset %(names)s
"""

# the trap comes first: a stop that arrives while the script is being started is passed on too
_RUN = """\
TAO_RUN_PID= TAO_RUN_WHY=
trap 'TAO_RUN_WHY=stopped; [ -z "$TAO_RUN_PID" ] || kill -TERM "$TAO_RUN_PID" 2>/dev/null' TERM
/bin/bash -c "$1" &
TAO_RUN_PID=$!
if [ -n "$TAO_RUN_WHY" ]; then kill -TERM "$TAO_RUN_PID" 2>/dev/null; fi
%(limit)swhile :; do
  wait "$TAO_RUN_PID"; TAO_RUN_CODE=$?
  kill -0 "$TAO_RUN_PID" 2>/dev/null || break
done
if [ "$TAO_RUN_WHY" = limited ]; then TAO_RUN_CODE=124; fi
if [ "$TAO_RUN_CODE" -ne 0 ]; then
  printf '%%s %%s %%d %%s\\n' '%(mark)s' exit "$TAO_RUN_CODE" "$TAO_RUN_WHY"
fi
exit "$TAO_RUN_CODE"
"""

_LIMIT = """\
trap 'TAO_RUN_WHY=limited; kill -TERM "$TAO_RUN_PID" 2>/dev/null' USR1
(sleep %(seconds)d; kill -USR1 $$; sleep %(grace)d; kill -KILL "$TAO_RUN_PID") > /dev/null 2>&1 &
"""


@dataclass(frozen=True)
class Around:
    """What the wrapper needs to know. `gpus` per node, None to take what Lepton says of the shape.

    `mark` begins the line that says how the script ended. `payload_parts` is the number of variables that
    `payload_variables` made. `max_time` is in seconds.
    """

    mark: str
    gpus: int | None
    payload_parts: int = 0
    max_time: int | None = None


def container_command(script: str, around: Around) -> list[str]:
    """The container's command: the wrapper, and the script as an argument of its own, untouched."""
    return ["/bin/bash", "-c", prelude(around.gpus, around.payload_parts) + _supervise(around), "tao-run", script]


def prelude(gpus: int | None, payload_parts: int = 0) -> str:
    """The variables of the job, and its payload as a file named in TAO_RUN_PAYLOAD."""
    count = "${LEPTON_RESOURCE_ACCELERATOR_NUM:-0}" if gpus is None else str(gpus)
    text = _TRANSLATE % {"port": MASTER_PORT, "gpus": count}
    if payload_parts:
        names = [f"{_PART}{index}" for index in range(payload_parts)]
        text += _UNPACK % {"parts": "".join(f"${{{name}}}" for name in names), "names": " ".join(names)}
    return text


def _supervise(around: Around) -> str:
    limit = _LIMIT % {"seconds": around.max_time, "grace": _KILL_AFTER} if around.max_time else ""
    return _RUN % {"mark": around.mark, "limit": limit}


def payload_variables(payload: bytes) -> dict[str, str]:
    """A payload as container variables: Lepton has no files to stage, and a command must stay small.

    Raises ValueError if it is too large for that (about 590 kB).
    """
    import base64

    text = base64.b64encode(payload).decode("ascii")
    parts = [text[start : start + _PART_BYTES] for start in range(0, len(text), _PART_BYTES)]
    if len(parts) > _MOST_PARTS:
        raise ValueError(f"{len(payload)} bytes are more than {_PART_BYTES * _MOST_PARTS * 3 // 4}")
    return {f"{_PART}{index}": part for index, part in enumerate(parts)}
