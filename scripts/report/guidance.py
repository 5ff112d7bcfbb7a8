"""What guidance and search come to, as a page: python scripts/report/guidance.py RUN... --page docs/guidance/measured.md --json FILE

Each RUN is the folder of a finished `prepose run`. Of every method: pictures with all objects, relations right in those (VISOR's
rule, by the detector's boxes), relations right in all, what the checker passes, and the cost. Standard errors count prompts, not pictures: pictures
of one prompt are alike. Methods that are named with --pair are compared picture by picture, same prompt and seed.
"""

import argparse
import json
import shlex
from pathlib import Path

START = "<!-- measured -->"
END = "<!-- /measured -->"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def ratio(parts):
    """A percentage and its standard error from [(part, whole)] for each prompt: the linearised variance of a ratio."""
    part, whole = (sum(column) for column in zip(*parts))
    if not whole:
        return dict(percent=None, standard_error=None, count=0, of=0)
    p, n = part / whole, len(parts)
    spread = sum((a - p * b) ** 2 for a, b in parts) * n / max(n - 1, 1)
    return dict(percent=round(100 * p, 2), standard_error=round(100 * spread ** 0.5 / whole, 2), count=part, of=whole)


def by_prompt(scores, part, whole=lambda score: True):
    groups = {}
    for score in scores:
        group = groups.setdefault(score["prompt_id"], [0, 0])
        if whole(score):
            group[0] += bool(part(score))
            group[1] += 1
    return list(groups.values())


def measure(folder):
    scores = lines(folder / "eval/scores.jsonl")
    verdicts = {}
    for record in lines(folder / "eval/per_sample.jsonl"):
        verdicts.setdefault(record["sample_id"], []).append(record["verdict_raw"])
    passes = lambda score: all(verdict == "PASS" for verdict in verdicts[score["sample_id"]])
    there = lambda score: score["found"] == score["objects"]
    mean = lambda key: round(sum(score[key] for score in scores) / len(scores), 2)
    return dict(
        pictures=len(scores), prompts=len({score["prompt_id"] for score in scores}),
        found=ratio(by_prompt(scores, there)),
        right_of_found=ratio(by_prompt(scores, lambda score: score["centre"], there)),
        right=ratio(by_prompt(scores, lambda score: score["centre"])),
        passed=ratio(by_prompt(scores, passes)),
        unet_calls=mean("unet_calls"), guided_calls=mean("guided_calls"), seconds=mean("seconds"))


def compare(one, other):
    """How much more often `other` is right than `one`, in points, over the pictures that both have."""
    right = [{(s["prompt_id"], s["seed"]): bool(s["centre"]) for s in lines(folder / "eval/scores.jsonl")} for folder in (one, other)]
    both = sorted(right[0].keys() & right[1].keys())
    groups = {}
    for key in both:
        groups.setdefault(key[0], []).append(right[1][key] - right[0][key])
    mean, n = sum(map(sum, groups.values())) / len(both), len(groups)
    spread = sum((sum(group) - mean * len(group)) ** 2 for group in groups.values()) * n / max(n - 1, 1)
    return dict(pictures=len(both), points=round(100 * mean, 2), standard_error=round(100 * spread ** 0.5 / len(both), 2))


def percent(value):
    return "–" if value["percent"] is None else f"{value['percent']:.1f} ± {value['standard_error']:.1f}"


def page(result):
    text = ["| method | all objects, % | relation right of those, % | relation right of all, % | PASS, % | pictures | UNet rows | guided passes |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, row in result["methods"].items():
        cells = [percent(row[key]) for key in ("found", "right_of_found", "right", "passed")]
        text.append(f"| {name} | {' | '.join(cells)} | {row['pictures']} | {row['unet_calls']:g} | {row['guided_calls']:g} |")
    for pair in result["pairs"]:
        one, other = (result["methods"][name] for name in (pair["one"], pair["other"]))
        share = 100 * other["unet_calls"] / one["unet_calls"]
        text += ["", f"`{pair['other']}` against `{pair['one']}`, same prompts and seeds, relation right of all: "
                     f"{pair['points']:+.1f} ± {pair['standard_error']:.1f} points over {pair['pictures']} pictures, "
                     f"with {share:.0f} % of the UNet rows."]
    text += ["", "```sh", *result["commands"], "```"]
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--page", type=Path, required=True, help=f"what stands between {START} and {END} is replaced")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--pair", nargs=2, action="append", default=[], metavar=("ONE", "OTHER"), help="two methods of one run")
    args = parser.parse_args()
    methods, folders, commands, days = {}, {}, [], []
    for run in args.runs:
        notes = [json.loads(path.read_text()) for path in sorted((run / "provenance").iterdir())]
        words = [f"runs/{run.name}" if word == str(run) else word for word in notes[0]["command"][1:]]
        commands.append("prepose " + " ".join(map(shlex.quote, words)))
        days.append(notes[-1]["started_utc"][:10])
        for method in json.loads((run / "run.json").read_text())["methods"]:
            name = method["name"]
            # A method is folded into its tables when it is complete.
            if not (run / name / "eval/scores.jsonl").exists():
                continue
            folders.setdefault(name, []).append(run / name)
            found = measure(run / name)
            if name not in methods or found["pictures"] > methods[name]["pictures"]:
                methods[name] = found
    pairs = []
    for one, other in args.pair:
        run = next(folder.parent for folder in folders[one] if folder.parent / other in folders[other])
        pairs.append(dict(one=one, other=other, **compare(run / one, run / other)))
    result = dict(days=days, commands=commands, methods=methods, pairs=pairs)
    args.json.write_text(json.dumps(result, indent=2) + "\n")
    text = args.page.read_text()
    before, rest = text.split(START)
    args.page.write_text(f"{before}{START}\n{page(result)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
