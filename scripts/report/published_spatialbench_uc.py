"""SpatialBench-UC's tables 5 to 11 as its repository has them, as one file:
python scripts/report/published_spatialbench_uc.py CLONE

CLONE is a clone of https://github.com/amineross/SpatialBench-UC (CC BY 4.0). Rates come from the released `metrics.json`, with all
their digits, and are checked against the released tables; what only the tables have comes from them. Writes
src/report/data/spatialbench-uc/published.json. Needs PyYAML.
"""

import argparse
import csv
import json
import subprocess
from pathlib import Path

import yaml

OUT = Path(__file__).resolve().parents[2] / "src/report/data/spatialbench-uc/published.json"
RUNS = Path("runs/final_20260112_084335")
# The paper's names of its methods (section 7).
METHODS = {"sd15_promptonly": "SD 1.5", "sd15_boxdiff": "SD 1.5 + BoxDiff", "sd14_gligen": "SD 1.4 + GLIGEN"}
# Where the tables and the records of each setting of the checker are.
CHECKED = {
    "calibrated": ("v1_calibrated_20260116_113552", "eval"),
    "uncalibrated": ("v1_finalfix_20260114_143137", "eval_precal_20260116_113552"),
}
REASONS = ["missing", "ambiguous", "near_boundary", "high_overlap", "unstable"]
# What a pipeline uses that no scheduler was named for: the one in the checkpoint.
SCHEDULERS = {"UniPCMultistepScheduler": "unipc", None: "pndm"}


def table(folder, name):
    with open(folder / "tables" / f"{name}.csv", newline="") as file:
        return {row.pop("run"): row for row in csv.DictReader(file)}


def checked(clone, setting, run):
    """Everything the tables say of one method with one setting of the checker."""
    report, evaluation = CHECKED[setting]
    report = clone / RUNS / "reports" / report
    metrics = json.loads((clone / RUNS / run / evaluation / "metrics.json").read_text())
    config = yaml.safe_load((clone / RUNS / run / evaluation / "checker_config.yaml").read_text())
    main, prompts, pairs, relations = (
        table(report, name)[run] for name in ["main_results", "prompt_metrics", "counterfactual", "by_relation"])
    rates = {
        "pass_rate": metrics["pass_rate_overall"],
        "coverage": metrics["coverage"],
        "pass_rate_cond": metrics["pass_rate_conditional"],
        "mean_conf": metrics["mean_confidence"],
    }
    for name, rate in rates.items():
        assert f"{rate:.4f}" == main[name], f"{run}, {setting}: {name} is {rate} in metrics.json and {main[name]} in the table"
    assert main["prompt_pass_rate"] == prompts["best_of_k_pass_rate"]
    samples = metrics["total_samples"]
    assert samples == int(main["samples"])
    reasons = dict.fromkeys(REASONS, 0)
    for reason, count in metrics["undecidable_reasons"].items():
        reasons[reason.split(" ")[0].split(":")[0]] += count
    assert sum(reasons.values()) == metrics["undecidable_count"]
    return {
        "margin": config["geometry"]["margin"],
        "detection_score": config["thresholds"]["detection_score"],
        "detector": config["detector"]["primary"]["type"],
        "secondary": config["detector"]["secondary"]["type"],
        "samples": samples,
        "prompts": int(prompts["total_prompts"]),
        **rates,
        "best_of_k": float(prompts["best_of_k_pass_rate"]),
        "all_of_k": float(prompts["all_of_k_pass_rate"]),
        "abstentions": {reason: count / samples for reason, count in reasons.items()},
        "by_relation": {name.removesuffix("_pass_rate"): float(rate) for name, rate in relations.items()},
        "pairs": int(pairs["pairs"]),
        "both_pass": float(pairs["both_pass_rate"]),
        "one_sided": float(pairs["one_sided_rate"]),
        "both_fail": float(pairs["both_fail_rate"]),
        "undecidable": float(pairs["undecidable_rate"]),
    }


def method(clone, run, name):
    generation = yaml.safe_load((clone / RUNS / run / "gen_config.yaml").read_text())
    generator = generation["generator"]
    params = generator["params"]
    return {
        "run": run,
        "name": name,
        "model": generator["model_id"],
        "scheduler": SCHEDULERS[params.get("scheduler")],
        "steps": params["num_inference_steps"],
        "guidance_scale": params["guidance_scale"],
        "width": params["width"],
        "height": params["height"],
        "seeds": generation["seeds"],
        **{setting: checked(clone, setting, run) for setting in CHECKED},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--commit", help="of the files, if CLONE is no clone but a copy of its files")
    args = parser.parse_args()
    commit = args.commit or subprocess.check_output(["git", "-C", args.clone, "rev-parse", "HEAD"], text=True).strip()
    published = {
        "source": "https://github.com/amineross/SpatialBench-UC",
        "commit": commit,
        "paper": "arXiv:2601.13462",
        "author": "Amine Rostane",
        "licence": "CC BY 4.0",
        "changes": "figures of metrics.json, tables/*.csv and the configurations, put into one file; counts as shares",
        "methods": [method(args.clone, run, name) for run, name in METHODS.items()],
    }
    OUT.write_text(json.dumps(published, indent=1) + "\n")


if __name__ == "__main__":
    main()
