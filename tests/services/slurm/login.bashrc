# What login hosts print around every command, and a fault for tests: with ~/.lose-reply the next sbatch does its
# work, and the connection is gone before its answer gets out.
PATH=$HOME/bin:$PATH
echo "Welcome to the cluster! Queue is busy."
echo "module: command not found" >&2
if [ -e ~/.lose-reply ]; then
  sbatch() {
    local pid=$$
    command sbatch "$@"
    rm -f ~/.lose-reply
    while [ "$(cat /proc/$pid/comm)" != sshd ]; do pid=$(awk '/^PPid/ {print $2}' /proc/$pid/status); done
    kill -KILL "$pid"
  }
  export -f sbatch
fi
