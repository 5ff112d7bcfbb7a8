"""What fewer calls of the network lose and save, as a page: python scripts/report/fewer_calls.py RUN --page docs/fewer-calls.md --json FILE

RUN is the folder of a `prepose run` with methods of `scripts/toybox/fewer_calls.toml`; those that are not complete are left
out. --times is what `scripts/bench/picture_cpu.py` wrote; without it there is no time. Of every method: relations right
(VISOR's rule) and what the checker passes, and both against the undisturbed method of the same guidance, picture by picture,
with 95 % intervals over the prompts; how far its pictures are from those, as the root of the mean square of the 255 levels;
rows through the network, and processor time.
"""

import argparse
import json
import shlex
from pathlib import Path

import numpy as np
from guidance import lines
from PIL import Image

START, END = "<!-- measured -->", "<!-- /measured -->"
# What each method is compared with: the longest of these that its name begins with, or else the first.
BASES = ["prompt-only", "psg", "psg-5"]
SIGNED = ("right_difference", "passed_difference")


def base_of(name):
    return max((base for base in BASES if name.startswith(base)), key=len, default=BASES[0])


def read(folder):
    """Every picture by prompt and seed."""
    verdicts = {}
    for record in lines(folder / "eval/per_sample.jsonl"):
        verdicts.setdefault(record["sample_id"], []).append(record["verdict_raw"])
    found = {}
    for score in lines(folder / "eval/scores.jsonl"):
        rows = score.get("unet_rows")
        found[score["prompt_id"], score["seed"]] = dict(
            right=bool(score["centre"]),
            passed=all(verdict == "PASS" for verdict in verdicts[score["sample_id"]]),
            # Both halves of classifier-free guidance, unless the picture says otherwise.
            whole=rows[0] if rows else 2 * score["unet_calls"],
            shallow=rows[1] if rows else 0,
            guided=score["guided_calls"],
            file=next((folder / "images").glob(f"*{score['sample_id']}*.png")),
        )
    return found


def share(values):
    """A percentage of prompts' means with its 95 % interval, half its width."""
    prompts = np.array([np.mean(each) for each in values])
    return dict(percent=round(100 * prompts.mean(), 2), half_width=round(196 * prompts.std(ddof=1) / len(prompts) ** 0.5, 2))


def by_prompt(pictures, value):
    groups = {}
    for (prompt, _), picture in pictures.items():
        groups.setdefault(prompt, []).append(value(picture))
    return list(groups.values())


def paired(one, other, key):
    assert one.keys() == other.keys()
    groups = {}
    for picture in one:
        groups.setdefault(picture[0], []).append(float(one[picture][key]) - float(other[picture][key]))
    return share(list(groups.values()))


def distance(one, other):
    """The mean over the pictures of the root mean square difference of their levels."""
    def of(file):
        return np.asarray(Image.open(file).convert("RGB"), dtype=float)

    return round(float(np.mean([((of(one[p]["file"]) - of(other[p]["file"])) ** 2).mean() ** 0.5 for p in one])), 2)


def measure(name, pictures, bases, times):
    mean = {key: round(float(np.mean([p[key] for p in pictures.values()])), 2) for key in ("whole", "shallow", "guided")}
    base = base_of(name)
    row = dict(
        pictures=len(pictures),
        prompts=len({prompt for prompt, _ in pictures}),
        right=share(by_prompt(pictures, lambda p: p["right"])),
        passed=share(by_prompt(pictures, lambda p: p["passed"])),
        **mean,
    )
    if name in times:
        row |= dict(cpu_seconds=round(min(times[name]), 4))
    if name != base and base in bases:
        row |= dict(
            base=base,
            right_difference=paired(pictures, bases[base], "right"),
            passed_difference=paired(pictures, bases[base], "passed"),
            distance=distance(pictures, bases[base]),
        )
        if name in times and base in times:
            row |= dict(cpu_share=round(min(times[name]) / min(times[base]), 3))
    return row


def percent(value):
    return f"{value['percent']:.1f} ± {value['half_width']:.1f}"


def page(result):
    heads = ["method", "relation right, %", "PASS, %", "relation right, difference", "PASS, difference", "picture difference"]
    heads += ["whole rows", "shallow rows", "guided passes"]
    timed = any("cpu_seconds" in row for row in result["methods"].values())
    if timed:
        heads += ["CPU s a picture", "of the undisturbed"]
    text = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for name, row in result["methods"].items():
        signed = [f"{row[key]['percent']:+.1f} ± {row[key]['half_width']:.1f}" if key in row else "" for key in SIGNED]
        cells = [percent(row["right"]), percent(row["passed"]), *signed, f"{row['distance']:.1f}" if "distance" in row else ""]
        cells += [f"{row[key]:g}" for key in ("whole", "shallow", "guided")]
        if timed:
            cells += [f"{row['cpu_seconds']:.3f}" if "cpu_seconds" in row else "", f"{row['cpu_share']:.2f}" if "cpu_share" in row else ""]
        text.append(f"| {name} | {' | '.join(cells)} |")
    first = next(iter(result["methods"].values()))
    text += ["", f"{first['prompts']} prompts, {first['pictures']} pictures a method, {result['day']}: what was finished then of", ""]
    text += ["```sh", result["command"], "```"]
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--times", type=Path)
    parser.add_argument("--page", type=Path, required=True, help=f"what stands between {START} and {END} is replaced")
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    times = json.loads(args.times.read_text()) if args.times else {}
    names = [method["name"] for method in json.loads((args.run / "run.json").read_text())["methods"]]
    # A method is folded into its tables when it is complete.
    names = [name for name in names if (args.run / name / "eval/scores.jsonl").exists()]
    pictures = {name: read(args.run / name) for name in names}
    notes = [json.loads(path.read_text()) for path in sorted((args.run / "provenance").iterdir())]

    def told(note):
        words = [f"runs/{args.run.name}" if word == str(args.run) else word for word in note["command"][1:]]
        return "prepose " + " ".join(map(shlex.quote, words))

    result = dict(
        day=notes[-1]["started_utc"][:10],
        command=told(notes[0]),
        commands=list(dict.fromkeys(map(told, notes))),
        timing={key: times.get(key) for key in ("steps", "pictures", "rounds")},
        methods={name: measure(name, pictures[name], pictures, times.get("seconds", {})) for name in names},
    )
    args.json.write_text(json.dumps(result, indent=2) + "\n")
    text = args.page.read_text()
    before, rest = text.split(START)
    args.page.write_text(f"{before}{START}\n{page(result)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
