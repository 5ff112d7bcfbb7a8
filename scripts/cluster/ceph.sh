#!/bin/bash
# A Ceph RADOS Gateway (S3) on loopback, its data in memory, for tests: root, no systemd.
#
#   ceph.sh up DIR [PORT]    down DIR
#   ceph.sh kill|start|stop|continue|quota-on|quota-off|suspend|enable DIR
#
# Needs Debian's radosgw ceph-mon ceph-osd ceph-common curl.
set -euo pipefail
order=$1 D=$(realpath -m "$2") PORT=${3:-19020}
export CEPH_CONF=$D/ceph.conf
admin() { radosgw-admin "$@" --uid=tester > /dev/null 2>&1; }
gateway() { cat "$D/run/client.rgw.pid"; }

up() {
    mkdir -p "$D"/{mon,osd,log,run,rgw}
    cd "$D"
    echo "$PORT" > port
    # A cluster without keys; radosgw would ask for "secure" mode, and hang, unless told crc.
    cat > ceph.conf <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon initial members = a
mon host = [v2:127.0.0.1:$((PORT + 1))/0]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
ms bind port min = $((PORT + 10))
ms bind port max = $((PORT + 90))
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
ms client mode = crc
client mount timeout = 30
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon max pg per osd = 1000
osd crush chooseleaf type = 0
osd crush update on start = false
log file = $D/log/\$name.log
admin socket = $D/run/\$name.\$pid.asok
pid file = $D/run/\$name.pid
run dir = $D/run
debug ms = 0
[mon]
mon data = $D/mon
mon data avail warn = 1
mon data avail crit = 1
[osd]
osd data = $D/osd
osd objectstore = memstore
memstore device bytes = 1073741824
osd class load list = *
osd class default list = *
osd op num shards = 1
osd op num threads per shard = 2
[client]
rgw frontends = beast endpoint=127.0.0.1:$PORT
rgw data = $D/rgw
rgw thread pool size = 64
rgw gc obj min wait = 5
rgw gc processor period = 10
CONF
    monmaptool --create --clobber --addv a "[v2:127.0.0.1:$((PORT + 1))]" \
        --fsid "$(awk '/^fsid/{print $3}' ceph.conf)" monmap > /dev/null
    ceph-mon -i a --mkfs --monmap monmap
    ceph-mon -i a
    ceph-osd -i 0 --mkfs 2> /dev/null
    timeout 30 ceph osd new "$(cat osd/fsid)" 0 > /dev/null
    timeout 30 ceph osd crush add osd.0 1.0 host=h root=default > /dev/null 2>&1
    ceph-osd -i 0 2> /dev/null
    radosgw -n client.rgw
    answers
    radosgw-admin user create --uid=tester --display-name=tester \
        --access-key="$AWS_ACCESS_KEY_ID" --secret-key="$AWS_SECRET_ACCESS_KEY" > /dev/null
}

answers() {
    for _ in $(seq 150); do
        curl -fs -o /dev/null "http://127.0.0.1:$(cat "$D/port")/" && return
        sleep 0.2
    done
    echo "the gateway does not answer" >&2
    exit 1
}

case $order in
    up) up ;;
    down)
        for signal in TERM KILL; do
            for pid in "$D"/run/*.pid; do
                if [ -e "$pid" ]; then kill "-$signal" "$(cat "$pid")" 2> /dev/null || true; fi
            done
            sleep 2
        done
        rm -rf "$D"
        ;;
    kill) kill -KILL "$(gateway)" ;;
    start) radosgw -n client.rgw && answers ;;
    stop) kill -STOP "$(gateway)" ;;
    continue) kill -CONT "$(gateway)" ;;
    quota-on)
        admin quota set --quota-scope=user --max-objects=4
        admin quota enable --quota-scope=user
        ;;
    quota-off) admin quota disable --quota-scope=user ;;
    suspend) admin user suspend ;;
    enable) admin user enable ;;
    *) echo "unknown: $order" >&2; exit 2 ;;
esac
