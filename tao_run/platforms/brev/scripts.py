"""The bash scripts that run on an instance: start a job, look at it, stop it, read its log.

Everything of a job is below `~/.tao-run/<name>/` (mode 0700). Each script may run twice (see client.py) and
none holds a secret: values come in a file of mode 0600, which the start script removes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ROOT = ".tao-run"
PAYLOAD_PATH = "/tao-run/payload"
LABEL, GPU_LABEL = "tao-run.job", "tao-run.gpus"
CODE_NO_DOCKER, CODE_NO_GPUS, CODE_LOGIN, CODE_PULL = 90, 91, 92, 93
TRIVIAL = "echo ready"
ABANDONED_MINUTES = 60  # staging a job takes no longer than this


@dataclass(frozen=True)
class Container:
    """What `docker run` is told. `secrets` are names of variables; their values are in the env file."""

    name: str
    job_id: str
    image: str
    command: Sequence[str]
    gpus: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    shm_size: str = "16g"
    pull_policy: str = "missing"
    payload: bool = False
    registry: str = ""
    max_time: int | None = None


def prepare_directory() -> str:
    """Make the place for jobs, for nobody else to look into. Secrets of submissions that were interrupted go."""
    return f"""umask 077; mkdir -p "$HOME/{ROOT}" || exit
find "$HOME/{ROOT}" -mindepth 2 -maxdepth 2 -type f "(" -name env -o -name login ")" -mmin +{ABANDONED_MINUTES} |
  while IFS= read -r file; do [ -e "${{file%/*}}/launched" ] || rm -f "$file"; done"""


def launch(name: str) -> str:
    """Set off `start.sh` in the background, once: pulling an image may take long, a connection may not last."""
    return f"""cd "$HOME/{ROOT}"/{name} || exit 1
[ -f payload ] && chmod 644 payload
[ -e canceled ] && {{ rm -f env login; echo canceled; exit 0; }}
mkdir launched 2>/dev/null || {{ echo already; exit 0; }}
setsid nohup bash "$PWD/start.sh" >start.log 2>&1 </dev/null &
echo started"""


def start_script(container: Container) -> str:
    """The text of `start.sh`: log in to the registry, pull, take free GPUs, run the container, clean up.

    Its exit code is left in `rc`: 0, or one of the CODE_ constants, or docker's own.
    """
    parts = [_PROLOGUE.format(name=container.name)]
    if container.registry:
        parts.append(_LOGIN.format(registry=shlex.quote(container.registry), code=CODE_LOGIN))
    parts.append(_PULL[container.pull_policy].format(image=shlex.quote(container.image), code=CODE_PULL))
    if container.gpus:
        parts.append(_GPUS.format(count=container.gpus, label=GPU_LABEL, code=CODE_NO_GPUS))
    parts.append(_RUN.format(run=" \\\n  ".join(_run_words(container))))
    if container.max_time:
        parts.append(_TIME_LIMIT.format(seconds=container.max_time, name=container.name))
    return "\n".join(parts)


def _run_words(container: Container) -> list[str]:
    words = [f"--name {container.name}", f"--label {LABEL}={container.job_id}"]
    if container.gpus:
        words += [f'--label {GPU_LABEL}="$gpus"', '--gpus "\\"device=$gpus\\""']
    words += [f"--shm-size {container.shm_size}", "--ulimit memlock=-1", "--ulimit stack=67108864"]
    if container.payload:
        words += [f'-v "$PWD/payload:{PAYLOAD_PATH}:ro"', f"-e TAO_RUN_PAYLOAD={PAYLOAD_PATH}"]
    words += ["-e " + shlex.quote(f"{key}={value}") for key, value in container.env.items()]
    words += [f"-e {name}" for name in container.secrets]
    return [*words, shlex.quote(container.image), *(shlex.quote(word) for word in container.command)]


_PROLOGUE = """#!/bin/bash
# Starts the container of tao-run job {name} on this instance.
cd "$(dirname "$0")" || exit 1
umask 077
finish() {{ rm -rf env login docker-config; printf '%s\\n' "$1" > rc.tmp; mv rc.tmp rc; }}
trap 'finish $?' EXIT
echo $$ > pid
command -v docker >/dev/null || {{ echo "docker is not installed on this instance"; exit 90; }}
export DOCKER_CONFIG="$PWD/docker-config"
"""
_LOGIN = """docker login {registry} -u '$oauthtoken' --password-stdin < login || exit {code}
"""
_PULL = {
    "missing": """docker image inspect {image} >/dev/null 2>&1 || {{
  echo pulling {image}; docker pull --quiet {image} || exit {code}; }}
""",
    "always": """echo pulling {image}
docker pull --quiet {image} || exit {code}
""",
}
# Docker hands out the first N GPUs to everybody: take free ones, under a lock that start scripts share.
_GPUS = """exec 9> ../gpus.lock
flock 9
all=$(nvidia-smi --query-gpu=index --format=csv,noheader) || {{ echo "nvidia-smi: $all"; exit {code}; }}
busy=$(docker ps -q --filter label={label} | xargs -r docker inspect --format '{{{{index .Config.Labels "{label}"}}}}')
free=$(grep -vxF -f <(tr ',' '\\n' <<< "$busy" | grep .) <<< "$all")
gpus=$(head -n {count} <<< "$free" | paste -sd,)
have=$(grep -c . <<< "$free")
[ "$have" -ge {count} ] || {{
  echo "{count} GPUs are asked for, $have of $(grep -c . <<< "$all") are free"; exit {code}; }}
"""
_RUN = """[ -e canceled ] && exit 0
docker=$(command -v docker)
[ -f env ] && . ./env
"$docker" run -d {run}
"""
_TIME_LIMIT = """code=$?
[ $code -eq 0 ] && (sleep {seconds}; [ "$(docker inspect --format '{{{{.State.Status}}}}' {name})" = running ] &&
  {{ touch timedout; docker stop -t 10 {name}; }}) >/dev/null 2>&1 9>&- &
exit $code
"""


def probe(names: Sequence[str]) -> str:
    """One line per job: `name<TAB>kind<TAB>canceled, timedout or -<TAB>data`; read by states.read_probe.

    kinds: container (data is docker's State), starting (the start log's last line), failed (`code` and the
    start log's end), lost (the start script died), absent. A docker daemon that does not answer: `nodocker`.
    """
    return f"""command -v docker >/dev/null && docker version --format '{{{{.Server.Version}}}}' >/dev/null || {{
  echo nodocker; exit 0; }}
for n in {" ".join(names)}; do
  d="$HOME/{ROOT}/$n"; c=-
  [ -e "$d/timedout" ] && c=timedout; [ -e "$d/canceled" ] && c=canceled
  if s=$(docker inspect --format '{{{{json .State}}}}' "$n" 2>/dev/null); then k=container
  elif [ ! -d "$d/launched" ]; then k=absent; s=
  elif [ -f "$d/rc" ]; then k=failed; s="$(cat "$d/rc") $(tail -c 2000 "$d/start.log" | tr '\\n\\t' '  ')"
  elif {_alive('"$d"')} || {_just_launched()}; then k=starting; s=$(tail -n 1 "$d/start.log" | tr '\\t' ' ')
  else k=lost; s=
  fi
  printf '%s\\t%s\\t%s\\t%s\\n' "$n" $k $c "$s"
done"""


def _alive(directory: str) -> str:
    return f"grep -qa start.sh /proc/$(cat {directory}/pid)/cmdline 2>/dev/null"


def _just_launched() -> str:
    return '{ [ ! -f "$d/pid" ] && [ -z "$(find "$d/launched" -maxdepth 0 -mmin +2)" ]; }'


def stop(name: str, seconds: int = 10) -> str:
    """Stop a job: no container starts any more, the one that runs gets SIGTERM and `seconds`, then SIGKILL.

    A job that has ended already stays as it ended.
    """
    return f"""s=$(docker inspect --format '{{{{.State.Status}}}}' {name} 2>/dev/null)
case "$s" in exited|dead) exit 0;; esac
d="$HOME/{ROOT}"/{name}; cd "$d" 2>/dev/null && {{
  touch canceled; rm -f env login
  if [ -f pid ] && {_alive('"$d"')}; then kill -TERM -- "-$(cat pid)"; fi; }}
docker inspect {name} >/dev/null 2>&1 || exit 0
docker stop -t {seconds} {name}"""


def remove(name: str) -> str:
    """Forget a job on this instance: its container and its directory."""
    return f"""docker rm -f {name} >/dev/null 2>&1
rm -rf "$HOME/{ROOT}"/{name}"""


def logs(name: str, since: str = "", tail: int | None = None, skip: int | None = None, follow: bool = False) -> str:
    """Print a container's log: a line `<RS>start N`, the lines from number N on (0 is the first), `<RS>end`.

    `skip` says which N; else it follows from `tail`. Lines are counted, not timed, to go on after a
    disconnect: the stamps of stdout and stderr may be out of order, the order of the log never changes.
    """
    read = f"docker logs --timestamps {f'--since {shlex.quote(since)} ' if since else ''}"
    first = (
        f"n={skip or 0}" if skip is not None or tail is None else f"n=$(( $({read}{name} 2>&1 | grep -c '') - {tail} ))"
    )
    return f"""docker inspect {name} >/dev/null 2>&1 || {{ printf '\\036none\\n'; exit 0; }}
{first}; [ "$n" -gt 0 ] || n=0
printf '\\036start %s\\n' "$n"
{read}{"--follow " if follow else ""}{name} 2>&1 | stdbuf -oL tail -n +$((n + 1))
printf '\\n\\036end\\n'"""


def start_log(name: str) -> str:
    """Print what the start script said."""
    return f'cat "$HOME/{ROOT}"/{name}/start.log 2>/dev/null'
