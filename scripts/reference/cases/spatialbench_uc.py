"""`fixtures/spatialbench-uc/`: a slice of SpatialBench-UC's released records (CC BY 4.0), lines as they are.

The bundle is `spatialbench-uc` in the folder that `PREPOSE_BENCHMARK_DATA` names; it is
https://github.com/amineross/SpatialBench-UC, whose `runs/` this is about.
"""

import json
import os
import shutil
from pathlib import Path

from common import case_dir

RUN = Path("runs") / "final_20260112_084335"
# The prompts, with all four pictures each: every reason to abstain, both verdicts, pairs of prompts that say the same.
RUNS = {
    "sd15_promptonly/eval": ["000000", "000001", "000002", "000003", "000008", "000080", "000081"],
    "sd15_promptonly/eval_precal_20260116_113552": ["000000", "000001", "000002", "000003", "000008", "000080", "000081"],
    "sd15_boxdiff/eval_precal_20260116_113552": ["000000", "000001", "000008", "000009", "000012"],
}
README = """# A slice of SpatialBench-UC's released records

`{run}/per_sample.jsonl` has some lines, and `checker_config.yaml` is the whole file, of `runs/final_20260112_084335/{run}/` in
[SpatialBench-UC](https://github.com/amineross/SpatialBench-UC) (Amine Rostane, 2026, arXiv:2601.13462), which is licensed
under [CC BY 4.0](https://creativecommons.org/licenses/by/4.0/). The lines were chosen, not changed.

Made by `python scripts/reference/make.py spatialbench-uc`.
"""


def make():
    bundle = Path(os.environ.get("PREPOSE_BENCHMARK_DATA", "benchmark-data")) / "spatialbench-uc"
    if not (bundle / RUN).is_dir():
        print(f"spatialbench-uc is left as it is: there is no {bundle / RUN}; set PREPOSE_BENCHMARK_DATA")
        return
    folder = case_dir("spatialbench-uc")
    (folder / "README.md").write_text(README, encoding="utf-8")
    for run, prompts in RUNS.items():
        (folder / run).mkdir(parents=True)
        shutil.copyfile(bundle / RUN / run / "checker_config.yaml", folder / run / "checker_config.yaml")
        lines = (bundle / RUN / run / "per_sample.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        chosen = [line for line in lines if json.loads(line)["prompt_id"].removeprefix("v1_") in prompts]
        (folder / run / "per_sample.jsonl").write_text("".join(chosen), encoding="utf-8")
