# Starting and ending daemons by recorded pid: never by name, so that nothing else on the machine is touched.
# Sourced by slurm-up and slurm-down; needs $ROOT.

# start_time PID, process_state PID: fields of /proc/PID/stat, counted after the command name (it may hold spaces).
start_time() { awk '{sub(/^.*\) /, ""); print $20}' "/proc/$1/stat" 2>/dev/null; }
process_state() { awk '{sub(/^.*\) /, ""); print $1}' "/proc/$1/stat" 2>/dev/null; }

# same PID TIME: that very process still lives (a pid alone may have been given to another process since).
same() { [ "$(start_time "$1")" = "$2" ] && [ "$(process_state "$1")" != Z ]; }

# alive NAME: the daemon that we started under this name still lives.
alive() {
  local file="$ROOT/pid/$1" pid started
  [ -s "$file" ] || return 1
  read -r pid started < "$file"
  same "$pid" "$started"
}

# launch NAME COMMAND...: a foreground daemon in a session of its own, unless it is already up.
launch() {
  local name=$1 pid
  shift
  alive "$name" && return 0
  setsid "$@" </dev/null >>"$ROOT/log/$name.out" 2>&1 &
  pid=$!
  disown
  sleep 0.05
  [ -r "/proc/$pid/stat" ] || { tail -20 "$ROOT/log/$name.out"; die "$name exited at once"; }
  echo "$pid $(start_time "$pid")" > "$ROOT/pid/$name"
}

# stop NAME [SECONDS]: TERM, then KILL when the time is over.
stop() {
  local file="$ROOT/pid/$1" pid started tries=$(( ${2:-10} * 10 ))
  [ -s "$file" ] || return 0
  read -r pid started < "$file"
  if same "$pid" "$started"; then
    kill -TERM "$pid" 2>/dev/null
    while same "$pid" "$started" && [ $tries -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
    if same "$pid" "$started"; then kill -KILL "$pid" 2>/dev/null; sleep 0.3; fi
  fi
  rm -f "$file"
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
  local end=$(( SECONDS + $1 )) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "timed out waiting for $what: $("$@" 2>&1 | tail -3)"
    sleep 0.1
  done
}
