"""What learned guidance comes to, as a page:
python scripts/report/steer.py RUN --steer TRAINING --control TRAINING --page docs/experiments/steer.md

RUN is the folder of a `prepose run` with the methods prompt-only, psg, steer and others; TRAINING are the folders of `prepose train steer`,
the first with the pictures that it made, the second with --no-wrong-words on the same pictures. Intervals are of 95 % and count prompts, not
pictures (scripts/report/guidance.py). What was measured comes from these folders.
"""

import argparse
import json
import shlex
from pathlib import Path

from guidance import compare, lines, measure

WIDE = 1.96


def share(value):
    if value["percent"] is None:
        return "–"
    return f"{value['percent']:.1f} ± {WIDE * value['standard_error']:.1f}"


def command(run, name):
    """The last call of a run, which names all of its methods; its folder as `runs/NAME`, our file of methods where it lies."""
    notes = [json.loads(path.read_text()) for path in run.glob("provenance/*")]
    words = max(notes, key=lambda note: note["started_utc"])["command"][1:]
    known = {"steer.toml": "scripts/train/steer.toml", run.name: f"runs/{name}", str(run): f"runs/{name}"}
    for option, place in (("--out", f"runs/{name}"), ("--cache", "runs/steer-maps")):
        if option in words:
            words[words.index(option) + 1] = place
    return " ".join(["prepose", *(shlex.quote(known.get(word, word)) for word in words)])


def training(folder):
    settings = json.loads((folder / "training.json").read_text())
    tried = lines(folder / "tried.jsonl")
    log = lines(folder / "log.jsonl")
    return dict(settings=settings, tried=tried[-1], steps=len(log), bytes=(folder / "steer.safetensors").stat().st_size)


def train(folder):
    """The commands of both trainings; the first made the pictures."""
    made = command(folder / "pictures", "steer")
    return made, made.replace("--out runs/steer", "--pictures runs/steer/pictures --no-wrong-words --out runs/steer-control")


def in_percent(value):
    return f"{100 * value:.1f} %"


def classifiers(trained):
    text = ["| training | right, under right words | right, under wrong words | says the wrong word | held-out samples | pictures | steps |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, one in trained.items():
        tried = one["tried"]
        cells = [in_percent(tried[key]) for key in ("right_words", "wrong_words", "says_word")]
        text.append(f"| {name} | {' | '.join(cells)} | {tried['samples']} | {one['settings']['pictures']} | {one['steps']} |")
    text += ["", "By noise level, right under right words and under wrong ones:", "",
             "| training | " + " | ".join(f"t = {t:g}" for t in next(iter(trained.values()))["settings"]["recipe"]["timesteps"]) + " |",
             "| --- |" + " ---: |" * len(next(iter(trained.values()))["settings"]["recipe"]["timesteps"])]
    for name, one in trained.items():
        cells = [" / ".join(in_percent(share) for share in pair) for pair in one["tried"]["by_timestep"]]
        text.append(f"| {name} | {' | '.join(cells)} |")
    return text


def verdict(pairs):
    """In words, what the intervals allow to say."""
    text = []
    for pair in pairs:
        wide = WIDE * pair["standard_error"]
        how = "better than" if pair["points"] > wide else "worse than" if -pair["points"] > wide else "not told apart from"
        text.append(f"* `{pair['other']}` is {how} `{pair['one']}`: {pair['points']:+.1f} ± {wide:.1f} points of relations right of all, "
                    f"same prompts and seeds, {pair['pictures']} pictures.")
    return text


def why(methods, trained):
    """What the table itself says of why `steer` is where it is."""
    if "steer" not in methods or "psg" not in methods:
        return []
    steer, psg = methods["steer"], methods["psg"]
    text = ["", "## Where steer and PoS differ", ""]
    for key, name in (("found", "both objects are there"), ("right_of_found", "the relation is right where both are there")):
        if None in (steer[key]["percent"], psg[key]["percent"]):
            continue
        text.append(f"* {name.capitalize()}: {share(steer[key])} % with `steer`, {share(psg[key])} % with `psg`.")
    text.append(f"* Passes of guidance a picture: {steer['guided_calls']:g} with `steer`, {psg['guided_calls']:g} with `psg`.")
    first = trained["with wrong words"]
    early = first["tried"]["by_timestep"][0]
    noisiest = first["settings"]["recipe"]["timesteps"][0]
    text += [f"* At the noisiest level that it knows (t = {noisiest:g}) the classifier is right on {in_percent(early[0])} of held-out maps under "
             f"right words and on {in_percent(early[1])} under wrong ones, and layouts are decided there. PoS's loss needs no training to know "
             "left from right at any level.",
             f"* The classifier is trained on {first['settings']['pictures']} pictures, those under the word of something absent "
             "counted once more; the authors take 4,000 for Stable Diffusion."]
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steer", type=Path, required=True)
    parser.add_argument("--control", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True)
    args = parser.parse_args()
    names = [method["name"] for method in json.loads((args.run / "run.json").read_text())["methods"]]
    names = [name for name in names if (args.run / name / "eval/scores.jsonl").exists()]
    methods = {name: measure(args.run / name) for name in names}
    wanted = [("prompt-only", "psg"), ("prompt-only", "steer"), ("psg", "steer"), ("psg", "steer+psg"), ("steer", "steer-no-wrong-words"),
              ("prompt-only", "steer-no-wrong-words")]
    pairs = [dict(one=one, other=other, **compare(args.run / one, args.run / other)) for one, other in wanted if {one, other} <= methods.keys()]
    trained = {"with wrong words": training(args.steer), "`--no-wrong-words`": training(args.control)}
    settings = trained["with wrong words"]["settings"]
    some = next(iter(methods.values()))
    text = ["# Learn-to-Steer on the toybox", "",
            "[Guidance that is learned](../guidance/steer.md) against [PoS guidance](../guidance/pos.md), which is written by hand, on prompts whose "
            "pairs of objects the classifier has never seen; and the control that the paper is about: a classifier that was never shown wrong "
            "relation words. Written by `scripts/report/steer.py` from the folders of the runs.", "",
            f"Of each method {some['pictures']} pictures of {some['prompts']} prompts. Intervals are of 95 % over prompts.", "",
            "| method | both objects, % | relation right of those, % | relation right of all, % | PASS, % | passes of guidance |",
            "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, row in methods.items():
        cells = [share(row[key]) for key in ("found", "right_of_found", "right", "passed")]
        text.append(f"| `{name}` | {' | '.join(cells)} | {row['guided_calls']:g} |")
    text += ["", "[What a pass costs](../guidance/cost.md).", "", *verdict(pairs),
             *why(methods, trained), "", "## The classifiers", "",
             f"{settings['recipe']['steps']} steps of {settings['recipe']['batch']} samples each; the file has "
             f"{trained['with wrong words']['bytes']} bytes. Tried on maps of pairs that were not trained on:", "", *classifiers(trained), "",
             "The pictures are of pairs that SpatialBench-UC does not have.", "", "```sh", *train(args.steer),
             command(args.run, "steer-measured"), "```", ""]
    args.page.write_text("\n".join(text))


if __name__ == "__main__":
    main()
