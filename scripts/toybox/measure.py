"""What the toybox does without guidance, by the detector in the program: python scripts/toybox/measure.py PROMPTS ORDER

PROMPTS is the folder of a finished `prepose run spatialbench-uc --method prompt-only`, ORDER that of `prepose ots homogenization`. Their figures go
onto the card, weights/toybox/README.md:

* found: of the pictures, those with both objects;
* right: of those, the pictures in which the stated relation holds (centres apart by any distance);
* homogenization (OTS-Bench): 100 |N_L - N_R| / (N_L + N_R) over the pictures for neutral prompts, where N_L counts those with the
  first-mentioned object on the left.
"""

import csv
import json
import shlex
import sys
from pathlib import Path

import trained

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))
from guidance import by_prompt, lines, ratio


def command(run):
    """The command that began a run."""
    words = json.loads(min((run / "provenance").iterdir()).read_text())["command"][1:]
    return "prepose " + " ".join(shlex.quote(f"runs/{run.name}" if word == str(run) else word) for word in words)


def share(value):
    return f"{value['percent']:.1f} ± {value['standard_error']:.1f} % ({value['count']} of {value['of']})"


def relations(run):
    """Rows of SpatialBench-UC's prompts; standard errors count prompts, since pictures of one prompt are alike."""
    scores = lines(run / "prompt-only/eval/scores.jsonl")
    said = {record["sample_id"]: record["relation"] for record in lines(run / "prompt-only/eval/per_sample.jsonl")}
    there = lambda score: score["found"] == score["objects"]
    yield "both objects found, SpatialBench-UC's prompts", share(ratio(by_prompt(scores, there)))
    yield "relation right, of those", share(ratio(by_prompt(scores, lambda score: score["centre"], there)))
    for relation in sorted(set(said.values())):
        some = [score for score in scores if said[score["sample_id"]] == relation]
        yield f"– {relation.replace('_', ' ')}", share(ratio(by_prompt(some, lambda score: score["centre"], there)))


def order(run):
    row = next(row for row in csv.DictReader((run / "results/homogenization.csv").open()) if row["run"] == "prompt-only")
    found = f"{row['homogenization']} [{row['low']}, {row['high']}] (first-mentioned left {row['left']}, right {row['right']}, of {row['pictures']})"
    yield "homogenization of neutral prompts", found


def main(prompts, pairs):
    sampling = json.loads((prompts / "run.json").read_text())["sampling"]
    text = [
        f"DDIM, {sampling['steps']} steps, guidance scale {sampling['guidance_scale']:g}, by the [detector](detector/README.md) in the program. ± is",
        "a standard error over prompts, an interval is of 95 % over pairs.",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in [*relations(prompts), *order(pairs)]),
        "",
        "```sh",
        command(prompts),
        command(pairs),
        "```",
    ]
    trained.on_card(trained.WEIGHTS / "README.md", "measured", lambda _: "\n".join(text))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*map(Path, sys.argv[1:]))
