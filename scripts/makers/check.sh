#!/usr/bin/env bash
# Runs the same prompts by the engine and by scripts/makers/diffusers_maker.py, both with the toybox, and compares them:
# pictures within 1/255, and the same verdicts. Needs the packages of the group "torch" (scripts/pyproject.toml).
#
#     scripts/makers/check.sh [PREPOSE [PYTHON]]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
prepose=${1:-$root/target/release/prepose}
python=${2:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

common=(run spatialbench-uc --every 10 --seeds 0-1 --device flex --steps 20 --size 128 --quiet)
"$prepose" "${common[@]}" --scheduler ddim --guidance-scale 7.5 --out "$folder/engine"
"$prepose" "${common[@]}" --guidance-scale 7.5 --out "$folder/maker" \
    --maker "$python $root/scripts/makers/diffusers_maker.py $root/weights/toybox --batch 4"

"$python" - "$folder" <<'PYTHON'
import json
import pathlib
import sys

import numpy
from PIL import Image

folder = pathlib.Path(sys.argv[1])
worst, verdicts = 0, {}
pictures = sorted((folder / "engine/prompt-only/images").glob("*.png"))
for path in pictures:
    read = lambda path: numpy.asarray(Image.open(path).convert("RGB")).astype(int)
    worst = max(worst, abs(read(path) - read(folder / "maker/prompt-only/images" / path.name)).max())
for run in ("engine", "maker"):
    lines = (folder / run / "prompt-only/eval/per_sample.jsonl").read_text().splitlines()
    verdicts[run] = [(line["sample_id"], line["verdict_raw"]) for line in map(json.loads, lines)]
same = sum(a == b for a, b in zip(verdicts["engine"], verdicts["maker"]))
print(f"{len(pictures)} pictures: at most {worst}/255 apart, {same} of {len(verdicts['engine'])} verdicts the same")
sys.exit(worst > 1 or verdicts["engine"] != verdicts["maker"])
PYTHON
