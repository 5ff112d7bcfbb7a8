#!/usr/bin/env bash
# usage: run.sh [PREPOSE] -- the benchmarks of `prepose judge`, and `prepose corpus`, through llama.cpp's server with a model of random weights
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prepose=$(realpath "${1:-target/release/prepose}")
python=${PYTHON:-python3}
work=$(mktemp -d)
cd "$work"
"$python" "$here/tiny_vlm.py" model 19060 sk-test 'root ::= "1" | "2" | "3" | "Yes" | "No" | "A" | "B" | "C"' > server.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq 100); do
  curl -sf -o /dev/null http://127.0.0.1:19060/health && break
  kill -0 $server 2>/dev/null || { cat server.log; exit 1; }
  sleep 0.2
done

"$prepose" -q run ots-objects --limit 10 --seeds 0 --steps 4 --out run > /dev/null
export PREPOSE_JUDGE_KEY=sk-test
ask=(--judge http://127.0.0.1:19060/v1 --judge-model tiny --max-tokens 8 --concurrency 2)
"$prepose" -q judge run --benchmark ots "${ask[@]}" --checker toybox --out ots
grep -q 'asked_now":0' <("$prepose" -q judge run --benchmark ots "${ask[@]}" --out ots --json)
"$python" - > graphs.jsonl <<'PYTHON'
import json
from pathlib import Path
for number, picture in enumerate(sorted(Path("run/prompt-only/images").glob("*.png"))[:10]):
    edge = {"source": "dog.1", "target": "cat.1", "relation": ["left of", "above", "near"][number % 3]}
    print(json.dumps({"id": picture.stem, "objects": ["dog.1", "cat.1"], "relationships": [edge]}))
PYTHON
"$prepose" -q judge run/prompt-only/images --benchmark scene --graphs graphs.jsonl "${ask[@]}" --out scene

# What the server refuses is told in one message.
status=0
PREPOSE_JUDGE_KEY=wrong "$prepose" -q judge run --benchmark ots "${ask[@]}" --out refused 2> message.txt > /dev/null || status=$?
[ "$status" = 2 ] && grep -q "asks for a key" message.txt
! grep -rq sk-test ots scene refused
# SpatialGenEval: a model of random weights says no ten lines, so that every picture is given up after its rounds, and told.
"$prepose" -q spatialgen prompts "$here/../../fixtures/spatialgen/ten.jsonl" -o ten/prompts.jsonl
"$prepose" -q run ten/prompts.jsonl --seeds 0 --steps 2 --checker none --out ten/run > /dev/null
spatialgen=(judge ten/run --benchmark spatialgen --questions "$here/../../fixtures/spatialgen/ten.jsonl" --rounds 1 --agreeing 1
  --most-rounds 2 --control shuffled,no-picture)
"$prepose" -q "${spatialgen[@]}" "${ask[@]}" --out spatialgen
grep -q 'asked_now":0' <("$prepose" -q "${spatialgen[@]}" "${ask[@]}" --out spatialgen --json)

# A corpus of the run's own pictures.
"$python" - > run/prompt-only/images/metadata.jsonl <<'PYTHON'
import json
from pathlib import Path
for picture in sorted(Path("run/prompt-only/images").glob("*.png"))[:10]:
    print(json.dumps({"file_name": picture.name, "text": "a photo of a dog and a cat"}))
PYTHON
"$prepose" -q corpus run/prompt-only/images "${ask[@]}" --out corpus
! grep -rq sk-test spatialgen corpus
echo "all as it should be"
