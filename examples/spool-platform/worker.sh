#!/bin/bash
# Runs the jobs of a spool directory one after the other: worker.sh DIRECTORY
cd "$1" && mkdir -p queue running jobs || exit 1
touch alive
trap 'rm -f alive' EXIT
while :; do
  for entry in queue/*; do
    [ -e "$entry" ] || continue
    job=$(basename "$entry")
    mv "$entry" running/ 2>/dev/null || continue # canceled meanwhile
    (
      cd "jobs/$job" || exit 1
      setsid bash -c 'echo $$ > pid; [ -f env ] && . ./env; rm -f env; exec bash -c "$(cat script)"' > log 2>&1 < /dev/null
      echo $? > exit.tmp && mv exit.tmp exit
    )
    rm -f "running/$job"
  done
  sleep 0.2
done
