#!/usr/bin/env bash
# Runs prompts through a picture server that others wrote, Xinference (Apache-2.0), which serves the toybox through diffusers on this
# machine: by AUTOMATIC1111's interface, by OpenAI's, and with pictures that are changed. Compares them with the engine's.
# Needs a Python with the packages xinference, torch, diffusers, transformers and accelerate.
#
#     scripts/servers/xinference.sh [PREPOSE [PYTHON]]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
prepose=${1:-$root/target/release/prepose}
python=${2:-python3}
folder=$(mktemp -d)
export XINFERENCE_HOME=$folder/home XINFERENCE_ENABLE_VIRTUAL_ENV=0 XINFERENCE_AUTH_ADVANCED=0 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" -c 'from xinference.deploy.cmdline import local; local()' --host 127.0.0.1 --port "$port" \
    >"$folder/server.log" 2>&1 &
server=$!
finish() {
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

"$python" - "$port" "$root/weights/toybox" <<'PYTHON' || { tail -40 "$folder/server.log"; exit 1; }
import json
import os
import sys
import time
import urllib.error
import urllib.request

base, model = f"http://127.0.0.1:{sys.argv[1]}", sys.argv[2]


def post(path, body):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        sys.exit(f"{path} answered {error.code}: {error.read().decode()[:2000]}")


for _ in range(600):
    try:
        urllib.request.urlopen(base + "/v1/models", timeout=10).read()
        break
    except urllib.error.HTTPError as error:
        sys.exit(f"the server answered {error.code}: {error.read().decode()[:2000]}")
    except OSError:
        time.sleep(1)
else:
    sys.exit("the server does not come up")
spec = {
    "version": 2,
    "model_name": "toybox",
    "model_family": "stable_diffusion",
    "model_id": None,
    "model_revision": None,
    "model_uri": "file://" + model,
    "model_ability": ["text2image", "image2image"],
    "controlnet": None,
    "default_model_config": {},
    "default_generate_config": {},
}
post("/v1/model_registrations/image", {"model": json.dumps(spec), "persist": False})
# It removes this folder as empty when it starts, and needs it later.
os.makedirs(os.environ["XINFERENCE_HOME"] + "/cache/v2", exist_ok=True)
post("/v1/models", {"model_uid": "toybox", "model_name": "toybox", "model_type": "image", "torch_dtype": "float32"})
PYTHON

common=(spatialbench-uc --every 100 --seeds 0-1 --device flex --quiet)
server=(--endpoint "http://127.0.0.1:$port" --parallel 1)
"$prepose" run "${common[@]}" --steps 20 --size 128 --guidance-scale 7.5 --scheduler ddim --out "$folder/engine"
"$prepose" run "${common[@]}" --steps 20 --size 128 --guidance-scale 7.5 --out "$folder/webui" \
    "${server[@]}" --endpoint-kind webui --endpoint-model toybox
"$prepose" run "${common[@]}" --size 128 --out "$folder/openai" --endpoint "http://127.0.0.1:$port/v1" --parallel 1 \
    --endpoint-model toybox --endpoint-set response_format=b64_json \
    --endpoint-set 'kwargs="{\"num_inference_steps\": 10}"'
"$prepose" ots edit --every 1100 --seeds 0 --device flex --quiet --checker none --steps 10 --size 128 --strength 0.5 \
    --out "$folder/edit" "${server[@]}" --endpoint-kind webui --endpoint-model toybox

"$python" - "$folder" <<'PYTHON'
import json
import pathlib
import sys

import numpy
from PIL import Image

folder = pathlib.Path(sys.argv[1])
read = lambda path: numpy.asarray(Image.open(path).convert("RGB")).astype(int)
pictures = sorted((folder / "engine/prompt-only/images").glob("*.png"))
apart = [abs(read(path) - read(folder / "webui/prompt-only/images" / path.name)).max() for path in pictures]
verdicts = {}
for run in ("engine", "webui"):
    lines = (folder / run / "prompt-only/eval/per_sample.jsonl").read_text().splitlines()
    verdicts[run] = [(line["sample_id"], line["verdict_raw"]) for line in map(json.loads, lines)]
same = sum(a == b for a, b in zip(verdicts["engine"], verdicts["webui"]))
print(f"sdapi/v1/txt2img: {len(pictures)} pictures, at most {max(apart)}/255 apart from the engine's, {same} verdicts the same")
count = lambda run: len(list((folder / run / "prompt-only/images").glob("*.png")))
assert count("openai") == len(pictures) and count("edit") == count("edit/seeds") > 0
print(f"v1/images/generations: {count('openai')} pictures; sdapi/v1/img2img: {count('edit')} of {count('edit/seeds')} seed pictures changed")
for path in (folder / "edit/prompt-only/images").glob("*.png"):
    assert read(path).shape == (128, 128, 3)
PYTHON
