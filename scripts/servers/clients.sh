#!/usr/bin/env bash
# Starts a server of the toybox and lets real clients use it: clients.sh PREPOSE PYTHON (see clients.py), then `prepose run
# --endpoint` of another process by both interfaces.
set -euo pipefail
prepose=${1:-target/release/prepose}
python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
export PREPOSE_TOKEN=clients-token
"$prepose" serve --device flex --port 0 --out "$work/served" > "$work/address" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -q "/\$" "$work/address"; do sleep 0.1; done
address=$(sed 's#http://##; s#/.*##' "$work/address")
"$python" "$here/clients.py" "$address" "$PREPOSE_TOKEN"
printf 'a dog to the left of a cat\na cup above a bus\n' > "$work/prompts.txt"
for kind in openai webui; do
  base=http://$address
  [ "$kind" = openai ] && base=$base/v1
  "$prepose" run "$work/prompts.txt" --endpoint "$base" --endpoint-kind "$kind" --endpoint-model toybox \
    --endpoint-key-env PREPOSE_TOKEN --endpoint-set 'seed={seed}' --steps 2 --seeds 0,1 --device flex --quiet --out "$work/$kind"
  echo "run --endpoint $kind ok"
done
