"""Makes docs/experiments/ots-cure.md from a finished `prepose ots cure`: python scripts/report/cure.py RUN [PAGE.md]

RUN is its folder. Every number of the page comes from RUN/results/cure.json, and so do the sentences about what was aimed at; the
page's line in docs/SUMMARY.md is added if it lacks.
"""

import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINE = "- [A cure for the bias of order](experiments/ots-cure.md)\n"
AFTER = "experiments/ots-switch.md)\n"
NAMES = {
    "homogenization": "homogenization",
    "aligned": "aligned, of valid",
    "reversed": "reversed, of valid",
    "left_of": "left of, of all",
    "right_of": "right of, of all",
    "sides": "both sides, of all",
    "found": "both objects found",
}
ABOUT = {
    "before": "the checkpoint as it is",
    "control": "a LoRA trained on the same pictures and captions without flips",
    "mirror": "a LoRA trained with mirror images under the same captions",
    "exchange": "a LoRA trained with the same pictures under captions in the other order",
}


def ends(value, sign=False):
    if value is None:
        return "–"
    form = "{:+.1f} [{:+.1f}, {:+.1f}]" if sign else "{:.1f} [{:.1f}, {:.1f}]"
    return form.format(*value)


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def figure(arm, name):
    return next(one for one in arm["figures"] if one["name"] == name)


def command(found):
    settings = found["settings"]
    words = ["prepose ots cure", "--by", ",".join(settings["by"])]
    if settings["with_sides"]:
        words.append("--with-sides")
    words += ["--suite", settings["suite"], "--most-pairs", str(settings["most_pairs"])]
    words += ["--pair-seeds", ",".join(map(str, settings["pair_seeds"]))]
    words += ["--most-prompts", str(settings["most_prompts"]), "--seeds", ",".join(map(str, settings["seeds"]))]
    if settings["steps"]:
        words += ["--steps", str(settings["steps"])]
    recipe = settings["recipe"]
    words += ["--train-steps", str(recipe["steps"]), "--train-batch", str(recipe["batch"])]
    words += ["--train-rate", str(recipe["rate"]["peak"]), "--rank", str(recipe["kind"]["lora"]["rank"])]
    if isinstance(recipe["timesteps"], dict):
        words += ["--layout-share", str(recipe["timesteps"]["layout"])]
    return " ".join([*words, "--out", "runs/cure"])


def aims(found):
    """What was aimed at, and whether it was reached, by the numbers alone."""
    arms = {arm["arm"]: arm for arm in found["arms"]}
    lines = []
    for name in found["settings"]["by"]:
        arm = arms[name]
        value, low, high = figure(arm, "homogenization")["value"]
        pictures = arm["neutral"]["pictures"]
        how = "reached" if value < 20 and pictures >= 500 else "not reached"
        seen = f"{value:.1f} [{low:.1f}, {high:.1f}] on {pictures}"
        lines.append(f"* `{name}`, homogenization below 20 on at least 500 pictures: {how}; {seen}.")
        for side, words in (("left_of", "left of"), ("right_of", "right of"), ("sides", "both together")):
            change = figure(arm, side)["change"]
            how = "reached" if change[0] >= -2 else "not reached"
            lines.append(f'* `{name}`, "{words}" loses at most 2 points: {how}; {ends(change, True)}.')
        minutes = (found["seconds"]["pairs"] + found["seconds"][f"train {name}"]) / 60
        how = "reached" if minutes <= 30 else "not reached"
        lines.append(f"* `{name}`, pictures and training in at most 30 minutes: {how}; {minutes:.0f} minutes as the machine was then.")
    moved = []
    for one in arms["control"]["figures"]:
        if one["change"] and (one["change"][1] > 0 or one["change"][2] < 0):
            moved.append(f"{NAMES[one['name']]} ({ends(one['change'], True)})")
    if moved:
        lines.append(f"* The control changes nothing beyond its interval: not reached; it changes {', '.join(moved)}.")
    else:
        lines.append("* The control changes nothing beyond its interval: reached.")
    return lines


def opening(found):
    settings, pairs = found["settings"], found["pairs"]
    sides = "each also with two captions that say which is left and which right" if settings["with_sides"] else "without captions that say a side"
    made = "of a run" if settings["pairs"] else f"of {settings['most_pairs']} pairs of objects in both orders"
    about = [f"* `{arm['arm']}`: {ABOUT[arm['arm']]}" for arm in found["arms"]]
    return [
        "# A cure for the bias of order",
        "",
        "What table 6 of [Order Is Not Layout](https://arxiv.org/abs/2603.03714) shows, on the toybox: a LoRA is trained on pictures of",
        "two things, each also flipped, so that no order of mention goes with a side. [How to](../cure.md) do it with another checkpoint.",
        "This page is made by `scripts/report/cure.py` from what the command wrote.",
        "",
        "```sh",
        command(found),
        "```",
        "",
        f"Of {pairs['pictures']} pictures {made}, {pairs['kept']} show the two once each, apart and side by side,",
        f"{pairs['first_left']} of them with the first-mentioned one on the left. Those are trained on, {sides}:",
        f"{pairs['samples']} samples before flips. No pair of objects that is measured was trained on.",
        "",
        *about,
        "",
    ]


def tables(found, plot):
    names = list(NAMES)
    rows = [[arm["arm"]] + [ends(figure(arm, name)["value"]) for name in names] for arm in found["arms"]]
    changes = [[arm["arm"]] + [ends(figure(arm, name)["change"], True) for name in names] for arm in found["arms"][1:]]
    quality = []
    for arm in found["arms"]:
        places, distance = arm["neutral"], arm["distance"]
        far = "–" if distance is None else "{:.2f} [{:.2f}, {:.2f}]".format(*distance["value"])
        counts = [str(places[key]) for key in ("pictures", "left", "right", "invalid")]
        quality.append([arm["arm"], *counts, str(arm["stated"]), far])
    measure = next((arm["distance"]["name"] for arm in found["arms"] if arm["distance"]), "distance")
    return [
        "## Before and after",
        "",
        "Percent, with 95 % intervals over pairs of objects. Homogenization is that of neutral prompts; aligned prompts say that the",
        "first-mentioned one is to the left, reversed that it is to the right, and count where both objects are found, or of all pictures.",
        "",
        *table(["", *NAMES.values()], rows),
        "",
        "The same as changes, on the same prompts and noise:",
        "",
        *table(["", *NAMES.values()], changes),
        "",
        "Where the first-mentioned object of neutral prompts is, and how far those pictures are from all that were made to train on, as",
        "a network's features have it:",
        "",
        *table(["", "neutral pictures", "left", "right", "invalid", "pictures with a side", measure], quality),
        "",
        *([f"![Where the first-mentioned object is]({plot})", ""] if plot else []),
        "The paper, text to image: FLUX-dev's homogenization fell from 88.8 to 47.4, Qwen-Image's from 91.6 to 50.8; reversed correctness",
        "rose from 24.7 to 49.3 and from 28.2 to 57.7. There prompts do not say a side, the world settles it, and a language model judges.",
        "",
    ]


def timesteps(recipe):
    """How timesteps are drawn."""
    if isinstance(recipe["timesteps"], dict):
        share = recipe["timesteps"]["layout"]
        return f"{100 * share:.0f} % of the timesteps drawn with a bias to high noise, the others around the middle"
    return {"sigmoid": "timesteps by the sigmoid of a normal number", "uniform": "all timesteps as often"}[recipe["timesteps"]]


def how(found):
    settings, recipe = found["settings"], found["settings"]["recipe"]
    lora, rate = recipe["kind"]["lora"], recipe["rate"]
    minutes = [[stage, f"{seconds / 60:.1f}"] for stage, seconds in found["seconds"].items()]
    threads = "1 thread" if found["threads"] == 1 else f"{found['threads']} threads"
    return [
        "## How",
        "",
        f"Rank {lora['rank']} ({lora['conv_rank']} in convolutions), layers: {lora['layers']}; 8-bit AdamW with rate {rate['peak']:g}",
        f"({rate['decay']}), {recipe['steps']} steps of {recipe['batch']} samples, {timesteps(recipe)}. Table 12",
        "has rank 32 and 16, 1e-4, 10000 steps of 1, timesteps by the sigmoid of a normal number.",
        f"Pictures of {settings['steps'] or 50} steps; {found['device']}, {threads}. What was killed is not counted.",
        "",
        *table(["stage", "minutes"], minutes),
        "",
    ]


def page(found, plot):
    lines = [*opening(found), "## What was aimed at", "", *aims(found), "", *tables(found, plot), *how(found)]
    return "\n".join(lines).rstrip() + "\n"


def main():
    run = Path(sys.argv[1])
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs/experiments/ots-cure.md"
    found = json.loads((run / "results/cure.json").read_text())
    plot = run / "results/cure-places.svg"
    name = None
    if plot.exists():
        name = "cure-places.svg"
        shutil.copy(plot, target.with_name(name))
    target.write_text(page(found, name))
    if len(sys.argv) > 2:
        return
    summary = ROOT / "docs/SUMMARY.md"
    text = summary.read_text()
    if LINE not in text:
        at = text.index(AFTER) + len(AFTER)
        summary.write_text(text[:at] + LINE + text[at:])


if __name__ == "__main__":
    main()
