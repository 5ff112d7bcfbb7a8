#!/usr/bin/env bash
# Starts a server of the toybox and lets real clients use it: clients.sh PREPOSE PYTHON (see clients.py), then `prepose run
# --endpoint` of another process by both interfaces. NODE_CLIENTS names a folder with npm's clients (see webui.mjs):
#
#     cd FOLDER && npm install stable-diffusion-api node-sd-webui   # with "overrides": {"sharp": "^0.33.5"} where sharp's own download is not reached
set -euo pipefail
prepose=${1:-target/release/prepose}
python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
export PREPOSE_TOKEN=clients-token
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; wait "${servers[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

# Starts a server and sets `address` once it listens.
start() {
    local name=$1
    shift
    "$prepose" serve --device flex --port 0 --out "$work/$name" "$@" > "$work/$name.address" &
    servers+=($!)
    # The address comes as one line; half of it would name another port.
    until grep -q . "$work/$name.address" && [ "$(tail -c 1 "$work/$name.address" | wc -l)" -eq 1 ]; do
        kill -0 "${servers[-1]}" || { echo "the server ended" >&2; exit 1; }
        sleep 0.1
    done
    address=$(grep -m1 -o 'http://[0-9.]*:[0-9]*' "$work/$name.address")
    address=${address#http://}
}

start served
"$python" "$here/clients.py" "$address" "$PREPOSE_TOKEN"
printf 'a dog to the left of a cat\na cup above a bus\n' > "$work/prompts.txt"
for kind in openai webui; do
    base=http://$address
    [ "$kind" = openai ] && base=$base/v1
    "$prepose" run "$work/prompts.txt" --endpoint "$base" --endpoint-kind "$kind" --endpoint-model toybox \
        --endpoint-key-env PREPOSE_TOKEN --endpoint-set 'seed={seed}' --steps 2 --seeds 0,1 --device flex --quiet --out "$work/$kind"
    echo "run --endpoint $kind ok"
done
if [ -n "${NODE_CLIENTS:-}" ]; then
    named=$address
    start free --no-token
    node "$here/webui.mjs" "$NODE_CLIENTS" "$named" "$PREPOSE_TOKEN" "$address"
fi
