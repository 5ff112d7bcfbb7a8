#!/bin/bash
# Slurm on one machine, for tests: root, loopback only, no systemd, no cgroups.
#
#   [SLOTS=n] slurm-cluster.sh up DIR    down DIR
#
# Needs Debian's slurm-wlm and munge. Afterwards: export SLURM_CONF=DIR/slurm.conf
set -euo pipefail
order=$1 D=$(realpath -m "$2") PORT=${PORT:-16817}
export SLURM_CONF=$D/slurm.conf

up() {
    mkdir -p "$D"/{state,spool/n1,log}
    local host memory
    host=$(hostname -s)
    memory=$(awk '/MemTotal/{print int($2/1024*0.9)}' /proc/meminfo)
    # cred_expire: how long a task that is requeued has to wait.
    cat > "$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$PORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=512
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool/%n
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd-%n.pid
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/slurmd-%n.log
JobRequeue=1
KillWait=2
MinJobAge=3600
SlurmdTimeout=15
ReturnToService=2
InactiveLimit=0
MailProg=/bin/true
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((PORT + 4)) CPUs=${SLOTS:-$(nproc)} RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
    echo 'CgroupAutomount=no' > "$D/cgroup.conf"
    if ! munge -n > /dev/null 2>&1; then
        install -d -o munge -g munge -m 755 /run/munge
        runuser -u munge -- /usr/sbin/munged
        touch "$D/munged-is-ours"
    fi
    slurmctld -c 2> "$D/log/slurmctld.err"
    slurmd -c -N n1 2> "$D/log/slurmd.err"
    for _ in $(seq 100); do
        sinfo -h -N -o %T 2> /dev/null | grep -q '^idle' && return
        sleep 0.2
    done
    cat "$D"/log/*.err >&2
    exit 1
}

case $order in
    up) up ;;
    down)
        # Daemons alone would leave running tasks behind.
        scancel -u "$(id -un)" 2> /dev/null || true
        sleep 3
        for pid in "$D"/*.pid; do if [ -e "$pid" ]; then kill "$(cat "$pid")" 2> /dev/null || true; fi; done
        for _ in $(seq 50); do ls "$D"/*.pid > /dev/null 2>&1 || break; sleep 0.1; done
        if [ -e "$D/munged-is-ours" ]; then kill "$(cat /run/munge/munged.pid)" 2> /dev/null || true; fi
        rm -rf "$D"
        ;;
    *) echo "unknown: $order" >&2; exit 2 ;;
esac
