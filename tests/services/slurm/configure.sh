# Writes the cluster's configuration under $ROOT/etc. Sourced by slurm-up.

# Real OUT_OF_MEMORY needs cgroup v1 controllers that we may write to.
cgroup_usable() {
  local probe=/sys/fs/cgroup/memory/slurm_probe.$$ controller
  for controller in memory freezer cpuset; do [ -w /sys/fs/cgroup/$controller ] || return 1; done
  mkdir "$probe" 2>/dev/null && rmdir "$probe"
}

process_tracking() {
  if [ "$CGROUP" = 1 ]; then
    printf '%s\n' ProctrackType=proctrack/cgroup TaskPlugin=task/cgroup JobAcctGatherType=jobacct_gather/cgroup
  else
    printf '%s\n' ProctrackType=proctrack/linuxproc TaskPlugin=task/none JobAcctGatherType=jobacct_gather/linux \
      JobAcctGatherParams=OverMemoryKill
  fi
}

accounting() {
  if [ "$DB" != 1 ]; then printf '%s\n' AccountingStorageType=accounting_storage/none PriorityType=priority/basic; return; fi
  cat <<C
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$DBD_PORT
AccountingStoragePass=$ROOT/munge/munge.sock
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:h100,gres/gpu:a100
PriorityType=priority/multifactor
C
}

write_slurm_conf() {
  cat > "$ROOT/etc/slurm.conf" <<C
ClusterName=fake
SlurmctldHost=$SHORT(127.0.0.1)
SlurmctldPort=$CTLD_PORT
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=socket=$ROOT/munge/munge.sock
CredType=cred/munge
StateSaveLocation=$ROOT/state
SlurmdSpoolDir=$ROOT/spool/%n
SlurmctldPidFile=$ROOT/state/slurmctld.pid
SlurmdPidFile=$ROOT/spool/%n.pid
SlurmctldLogFile=$ROOT/log/slurmctld.log
SlurmdLogFile=$ROOT/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
SlurmdParameters=config_overrides
${LOOPBACK:+CommunicationParameters=NoInAddrAny,NoCtldInAddrAny}
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
$(process_tracking)
JobAcctGatherFrequency=task=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=100000,bf_continue
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait=2
MinJobAge=$MIN_JOB_AGE
InactiveLimit=0
SlurmctldTimeout=60
SlurmdTimeout=120
MessageTimeout=$MESSAGE_TIMEOUT
TCPTimeout=5
JobCompType=jobcomp/filetxt
JobCompLoc=$ROOT/log/jobcomp.txt
$(accounting)
GresTypes=gpu
PlugStackConfig=$ROOT/etc/plugstack.conf
$(node_lines)
PartitionName=batch Nodes=$ALL Default=YES MaxTime=24:00:00 DefaultTime=01:00:00 DefMemPerCPU=100 PriorityTier=5 PreemptMode=OFF State=UP
PartitionName=short Nodes=$ALL MaxTime=00:05:00 DefaultTime=00:02:00 DefMemPerCPU=100 PriorityTier=10 State=UP
PartitionName=spare Nodes=$ALL MaxTime=24:00:00 DefMemPerCPU=100 PriorityTier=1 PreemptMode=CANCEL State=UP
PartitionName=requeue Nodes=$ALL MaxTime=24:00:00 DefMemPerCPU=100 PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=down  Nodes=node1 MaxTime=24:00:00 State=DOWN
C
}

# The last node has another GPU type, so that a request by type can be refused.
gpu_type() { if [ "$1" = "$NODES" ] && [ "$NODES" -gt 1 ]; then echo a100; else echo h100; fi; }

node_lines() {
  local i type
  for i in $(seq 1 "$NODES"); do
    type=$(gpu_type "$i")
    echo "NodeName=node$i NodeHostname=$SHORT NodeAddr=127.0.0.1 Port=$((SLURMD_PORT + i)) Sockets=1 CoresPerSocket=8" \
      "ThreadsPerCore=1 RealMemory=4000 Gres=gpu:$type:4 Feature=$type State=UNKNOWN"
  done
}

# GPUs are device nodes that nothing opens: SLURM only counts them and sets CUDA_VISIBLE_DEVICES.
make_gpus() {
  local i gpu
  : > "$ROOT/etc/gres.conf"
  for i in $(seq 1 "$NODES"); do
    mkdir -p "$ROOT/dev/node$i" "$ROOT/spool/node$i"
    for gpu in 0 1 2 3; do
      [ -c "$ROOT/dev/node$i/nvidia$gpu" ] || mknod -m 666 "$ROOT/dev/node$i/nvidia$gpu" c 195 $gpu
    done
    echo "NodeName=node$i Name=gpu Type=$(gpu_type "$i") File=$ROOT/dev/node$i/nvidia[0-3]" >> "$ROOT/etc/gres.conf"
  done
}

write_cgroup_conf() {
  cat > "$ROOT/etc/cgroup.conf" <<C
CgroupPlugin=cgroup/v1
CgroupAutomount=no
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
ConstrainCores=no
ConstrainDevices=no
C
}

# Without the plugin --container-image is an unknown option, as on a cluster without pyxis.
build_container_plugin() {
  : > "$ROOT/etc/plugstack.conf"
  [ "$CONTAINER" = 1 ] || return 0
  gcc -O2 -Wall -shared -fPIC -o "$ROOT/plugins/spank_container.so" "$HERE/spank_container.c" || die "spank_container.c"
  touch "$ROOT/log/containers.log"
  chmod 666 "$ROOT/log/containers.log"
  echo "required $ROOT/plugins/spank_container.so log=$ROOT/log/containers.log" > "$ROOT/etc/plugstack.conf"
}

# Each node has its own host name and /etc/hosts: its slurmd lives in a mount and UTS namespace.
write_node_wrapper() {
  { cat /etc/hosts; for i in $(seq 1 "$NODES"); do echo "127.0.0.1 node$i"; done; } > "$ROOT/etc/hosts"
  cat > "$ROOT/etc/node-slurmd" <<C
#!/bin/sh
# node-slurmd NODE: runs inside the node's namespaces, then becomes slurmd.
set -e
hostname "\$1"
mount --bind "$ROOT/etc/hosts" /etc/hosts
exec /usr/sbin/slurmd -D -N "\$1"
C
}

write_slurmdbd_conf() {
  cat > "$ROOT/etc/slurmdbd.conf" <<C
AuthType=auth/munge
AuthInfo=socket=$ROOT/munge/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$DBD_PORT
${LOOPBACK:+CommunicationParameters=NoInAddrAny}
SlurmUser=slurm
DebugLevel=info
LogFile=$ROOT/log/slurmdbd.log
PidFile=$ROOT/state/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$SQL_PORT
StorageUser=slurm
StoragePass=slurmpw
StorageLoc=slurm_acct_db
C
  chown slurm:slurm "$ROOT/etc/slurmdbd.conf"
  chmod 600 "$ROOT/etc/slurmdbd.conf"
}

write_sshd_config() { # NAME PORT
  cat > "$ROOT/ssh/sshd_config.$1" <<C
ListenAddress 127.0.0.1:$2
HostKey $ROOT/ssh/host_key
PidFile $ROOT/ssh/$1.pid
Banner $ROOT/ssh/banner
LogLevel VERBOSE
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
AllowUsers $LOGIN
UsePAM no
UseDNS no
PrintMotd no
MaxStartups 100:30:200
MaxSessions 100
AcceptEnv LANG LC_*
SetEnv SLURM_CONF=$SLURM_CONF
Subsystem sftp /usr/lib/openssh/sftp-server
C
}

# login-a and login-b: two login hosts of one cluster.
write_ssh_client_config() {
  local name port
  : > "$ROOT/ssh/config"
  : > "$ROOT/ssh/known_hosts"
  for name in a:$SSH_PORT b:$((SSH_PORT + 1)); do
    port=${name#*:}
    cat >> "$ROOT/ssh/config" <<C
Host login-${name%:*}
  HostName 127.0.0.1
  Port $port
  User $LOGIN
  IdentityFile $ROOT/ssh/id_test
  IdentitiesOnly yes
  UserKnownHostsFile $ROOT/ssh/known_hosts
C
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$ROOT/ssh/host_key.pub")" >> "$ROOT/ssh/known_hosts"
  done
}
