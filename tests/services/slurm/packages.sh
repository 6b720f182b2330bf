# Debian packages of the cluster: installed when missing, without starting the stock daemons. Sourced by slurm-up.

needed_packages() {
  echo slurmctld slurmd slurm-client munge openssh-server openssh-client
  [ "$CONTAINER" = 1 ] && echo gcc libc6-dev libslurm-dev
  [ "$DB" = 1 ] && echo slurmdbd mariadb-server
  return 0
}

missing_packages() {
  local package
  for package in $(needed_packages); do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

one_apt_get() { # services start side by side, and apt-get refuses to run twice
  flock "${TMPDIR:-/tmp}/tao-run-apt.lock" apt-get -o DPkg::Lock::Timeout=900 "$@"
}

install_packages() {
  local missing policy=/usr/sbin/policy-rc.d made=0 log="$ROOT/log/apt.out"
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  [ "${SLURM_TEST_APT:-1}" = 1 ] || die "missing packages:" $missing
  say "apt-get install" $missing
  # This policy keeps maintainer scripts from starting the daemons on their stock ports.
  if [ ! -e $policy ]; then printf '#!/bin/sh\nexit 101\n' > $policy; chmod 755 $policy; made=1; fi
  export DEBIAN_FRONTEND=noninteractive
  { one_apt_get update -q && one_apt_get install -y -q --no-install-recommends $missing; } > "$log" 2>&1 \
    || { tail -30 "$log"; [ $made = 1 ] && rm -f $policy; die "apt-get"; }
  [ $made = 1 ] && rm -f $policy
  return 0
}
