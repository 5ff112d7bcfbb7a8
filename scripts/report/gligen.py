"""Makes docs/experiments/gligen.md from runs: python scripts/report/gligen.py RUN... [--page PAGE.md]

RUN is the folder of a `prepose run` with methods that are compared; those that are not complete are left out. A picture's objects
have their places by the layout of its prompt's relation (boxes of SpatialBench-UC; docs/guidance/boxdiff.md). Of every method: prompts'
objects that are found, of these the ones with their centre in their box, pictures with both so, relations right (VISOR's rule) and what the
checker passes; and all of this against the first method, prompt by prompt with the same seeds. Intervals of 95 % are over prompts.
"""

import argparse
import json
import shlex
from pathlib import Path

import numpy as np
from guidance import lines

ROOT = Path(__file__).resolve().parents[2]
LINE = "- [GLIGEN on the toybox](experiments/gligen.md)\n"
AFTER = "experiments/ots-cure.md)\n"
# The outer thirds of the picture, half as long as it: x0, y0, x1, y1 of the subject and of the object.
LEFT, RIGHT = [0.05, 0.25, 0.35, 0.75], [0.65, 0.25, 0.95, 0.75]
TOP, BOTTOM = [0.25, 0.05, 0.75, 0.35], [0.25, 0.65, 0.75, 0.95]
LAYOUT = {"left_of": (LEFT, RIGHT), "right_of": (RIGHT, LEFT), "above": (TOP, BOTTOM), "below": (BOTTOM, TOP)}
COLUMNS = {
    "found": "objects found",
    "inside": "centre in its box, of these",
    "both": "both in their boxes, of pictures with both",
    "right": "relation right, of all",
    "passed": "PASS, of all",
}
AIM = 90.0


def is_inside(box, place, size):
    centre = [(box[i] + box[i + 2]) / 2 / size[i] for i in (0, 1)]
    return all(place[i] <= centre[i] <= place[i + 2] for i in (0, 1))


def read(folder):
    """Every picture by prompt and seed: numerator and denominator of each column."""
    scores = {score["sample_id"]: score for score in lines(folder / "eval/scores.jsonl")}
    found = {}
    for record in lines(folder / "eval/per_sample.jsonl"):
        score = scores[record["sample_id"]]
        size = record.get("image_size", [512, 512])
        boxes = [record["selected"][f"box_{which}_xyxy"] for which in "ab"]
        places = LAYOUT[record["relation"]]
        inside = [is_inside(box, place, size) for box, place in zip(boxes, places) if box]
        both = len(inside) == 2
        found[score["prompt_id"], score["seed"]] = dict(
            found=(len(inside), 2),
            inside=(sum(inside), len(inside)),
            both=(int(both and all(inside)), int(both)),
            right=(int(bool(score["centre"])), 1),
            passed=(int(record["verdict_raw"] == "PASS"), 1),
            calls=(score["unet_calls"], score["guided_calls"]),
        )
    return found


def by_prompt(pictures, column):
    groups = {}
    for (prompt, _), picture in pictures.items():
        groups.setdefault(prompt, []).append(picture[column])
    return {prompt: np.sum(parts, axis=0) for prompt, parts in groups.items()}


def share(groups):
    """A percentage with half of its 95 % interval, from numerator and denominator of each prompt: the linearised variance of a ratio."""
    parts = np.array(list(groups.values()), float)
    part, whole = parts.sum(axis=0)
    ratio = part / max(whole, 1)
    spread = ((parts[:, 0] - ratio * parts[:, 1]) ** 2).sum() * len(parts) / max(len(parts) - 1, 1)
    return [100 * ratio, 196 * spread**0.5 / max(whole, 1), int(part), int(whole)]


def change(one, other):
    """The difference of two ratios over the same prompts, in points, with half of its 95 % interval."""
    prompts = sorted(one.keys() & other.keys())
    a, b = (np.array([groups[prompt] for prompt in prompts], float) for groups in (one, other))
    ratios = [parts[:, 0].sum() / max(parts[:, 1].sum(), 1) for parts in (a, b)]
    rests = [(parts[:, 0] - ratio * parts[:, 1]) / max(parts[:, 1].sum(), 1) for parts, ratio in zip((a, b), ratios)]
    spread = ((rests[1] - rests[0]) ** 2).sum() * len(prompts) / max(len(prompts) - 1, 1)
    return [100 * (ratios[1] - ratios[0]), 196 * spread**0.5]


def table(heads, rows):
    text = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    return text + ["| " + " | ".join(row) + " |" for row in rows]


def plain(value):
    return f"{value[0]:.1f} ± {value[1]:.1f}"


def signed(value):
    return f"{value[0]:+.1f} ± {value[1]:.1f}"


def aims(methods, groups):
    said = []
    for name in methods:
        if name.startswith("gligen"):
            value = share(groups[name]["both"])
            how = "reached" if value[0] >= AIM else "not reached"
            said.append(f"* `{name}`, both objects in their boxes in at least {AIM:.0f} % of the pictures that have both: {how}; {plain(value)}.")
    pairs = [("boxdiff", "gligen", "PASS of `gligen` above that of `boxdiff`"), ("gligen", "gligen+psg", "PASS of `gligen+psg` not below `gligen`")]
    for one, other, words in pairs:
        if one in methods and other in methods:
            value = change(groups[one]["passed"], groups[other]["passed"])
            how = "reached" if value[0] >= 0 else "not reached"
            said.append(f"* {words}: {how}; {signed(value)} points.")
    return said


def told(run):
    """The command of a run."""
    note = json.loads(sorted((run / "provenance").iterdir())[0].read_text())
    words = [f"runs/{run.name}" if word == str(run) else word for word in note["command"][1:]]
    return "prepose " + " ".join(map(shlex.quote, words)), note["started_utc"][:10]


def page(runs, pictures, folders):
    methods = list(pictures)
    groups = {name: {column: by_prompt(pictures[name], column) for column in COLUMNS} for name in methods}
    counts = sorted({(len({prompt for prompt, _ in found}), len(found)) for found in pictures.values()})
    rows = [[f"`{name}`", *(plain(share(groups[name][column])) for column in COLUMNS)] for name in methods]
    first = methods[0]
    changes = [[f"`{name}`", *(signed(change(groups[first][c], groups[name][c])) for c in COLUMNS)] for name in methods[1:]]
    calls = [[f"`{name}`", *(f"{np.mean([p['calls'][i] for p in pictures[name].values()]):g}" for i in (0, 1))] for name in methods]
    relations = []
    for relation in LAYOUT:
        cells = [f"{share(groups_of(folders[name], pictures[name], relation))[0]:.1f}" for name in methods]
        relations.append([relation.replace("_", " "), *cells])
    how_many = " or ".join(f"{prompts} prompts, {number} pictures" for prompts, number in counts)
    return [
        "# GLIGEN on the toybox",
        "",
        "The [layers](../../weights/toybox/gligen/README.md) that [`prepose train gligen`](../training.md#phrases-with-boxes) made for the toybox,",
        "beside BoxDiff, which moves latents by a loss instead, and beside nothing. SpatialBench-UC's prompts, whose relations",
        "give the boxes; the detector in the binary looks. This page is made by `scripts/report/gligen.py` from the "
        f"folder{'s' if len(runs) > 1 else ''} of",
        "",
        "```sh",
        *(told(run)[0] for run in runs),
        "```",
        "",
        f"A method has {how_many}; {told(runs[-1])[1]}. Percent, ± half of a 95 % interval over prompts.",
        "",
        *table(["method", *COLUMNS.values()], rows),
        "",
        f"Differences to `{first}` on the same prompts and noise, in points:",
        "",
        *table(["method", *COLUMNS.values()], changes),
        "",
        "## What was aimed at",
        "",
        *aims(methods, groups),
        "",
        "## By relation",
        "",
        "PASS of all, percent:",
        "",
        *table(["relation", *(f"`{name}`" for name in methods)], relations),
        "",
        "## Cost",
        "",
        *table(["method", "rows through the UNet, half of classifier-free guidance", "recorded passes of guidance"], calls),
        "",
    ]


def groups_of(folder, pictures, relation):
    asked = {record["prompt_id"] for record in lines(folder / "eval/per_sample.jsonl") if record["relation"] == relation}
    return by_prompt({key: value for key, value in pictures.items() if key[0] in asked}, "passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/experiments/gligen.md")
    args = parser.parse_args()
    folders = {}
    for run in args.runs:
        for method in json.loads((run / "run.json").read_text())["methods"]:
            # A method is folded into its tables when it is complete.
            if (run / method["name"] / "eval/scores.jsonl").exists():
                folders[method["name"]] = run / method["name"]
    pictures = {name: read(folder) for name, folder in folders.items()}
    args.page.write_text("\n".join(page(args.runs, pictures, folders)).rstrip() + "\n")
    summary = ROOT / "docs/SUMMARY.md"
    text = summary.read_text()
    if LINE not in text:
        at = text.index(AFTER) + len(AFTER)
        # As deep as the line before it.
        indent = text[: text.index(AFTER)].rsplit("\n", 1)[-1].split("-")[0]
        summary.write_text(text[:at] + indent + LINE + text[at:])


if __name__ == "__main__":
    main()
