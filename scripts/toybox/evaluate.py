"""What guidance and search do on the toybox: prepose makes the pictures, the judge looks at them.

    python scripts/toybox/evaluate.py --prepose target/release/prepose --run DIR --prompts prompts.jsonl \
        --out OUT --json FILE --card weights/toybox/README.md

DIR is the folder of a training run (its judge, which is no part of prepose; docs/guidance/measured.md has the same by the
detector that is in the binary). Over SpatialBench-UC's prompts, for each method: pictures with both
objects, the relation right in those, the relation right in all. Over neutral prompts of two objects in both orders:
homogenization, for the card (what switching the prompt does to it: `prepose ots switch`). A method whose folder in OUT is
complete is not run again.
"""

import argparse
import json
import subprocess
import time
from pathlib import Path

import numpy as np
from PIL import Image

import world
from judge import Sight
from measure import card_table, see, share, training_table, true_relation, write_card

STEPS = 20
# Search from candidates 0..N of one run, so that the numbers of different N can be compared.
SIZES = (4, 8, 16, 32)
METHODS = {
    "prompt only": [],
    "PoS": ["--guide", "pos"],
    "BoxDiff": ["--guide", "boxdiff"],
    "best of 32, pruned": ["--best-of", "32", "--prune"],
    "best of 32": ["--best-of", "32", "--keep-all"],
    "PoS + best of 4": ["--guide", "pos", "--best-of", "4"],
    "PoS, one pass": ["--guide", "pos", "--guide-one-pass"],
    "PoS, cheap layers": ["--guide", "pos", "--guide-layers", "cheap"],
    "Attend-and-Excite": ["--guide", "attend-and-excite"],
    "layout guidance": ["--guide", "layout"],
}
# Search and the variants of PoS have seed 0 only.
ALL_SEEDS = ("prompt only", "PoS", "BoxDiff", "Attend-and-Excite", "layout guidance")


def paint(args, name, prompts, options, seeds):
    """Pictures for `prompts` × `seeds` as [record], the JSON lines of prepose; from an earlier run if there is one."""
    folder = args.out / name.replace(" ", "-").replace(",", "").replace("+", "and")
    done = folder / "records.jsonl"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(args.prepose), "-q", "generate", *prompts, "--seeds", f"0-{seeds - 1}", "--steps", str(STEPS),
                   "--checkpoint", str(args.checkpoint), "--batch", str(args.batch), "--json", "-o", str(folder), *options]
        started = time.time()
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        print(f"{name}: {time.time() - started:.0f} s", flush=True)
        done.write_text(lines)
    return [json.loads(line) for line in done.read_text().splitlines()]


def look(sight, records):
    pictures = [np.asarray(Image.open(record["path"]).convert("RGB")) for record in records]
    return [here for i in range(0, len(pictures), 256) for here in see(sight, pictures[i:i + 256])]


def judge_relations(sight, records, by_prompt):
    """Counts over pictures for prompts with a relation."""
    found = right = 0
    by_relation = {}
    for record, here in zip(records, look(sight, records)):
        prompt = by_prompt[record["prompt"]]
        a, b = prompt["object_a"]["name"], prompt["object_b"]["name"]
        tally = by_relation.setdefault(prompt["relation"], [0, 0])
        if sight.found(here, a) and sight.found(here, b):
            ok = true_relation(prompt["relation"], here[a][1:], here[b][1:])
            found, right = found + 1, right + ok
            tally[0] += 1
            tally[1] += ok
    return dict(pictures=len(records), found=share(found, len(records)), right=share(right, found),
                right_of_all=share(right, len(records)),
                right_by_relation={name: share(ok, there) for name, (there, ok) in by_relation.items()})


def calls_per_picture(records):
    """Rows through the whole UNet for each picture that is kept; guidance's own passes are not counted."""
    searched = "candidate" in records[0]
    return sum(record["unet_calls"] for record in records) / len(records) if searched else STEPS


def best_of(records, size):
    """The best of the first `size` candidates of each search, by its score."""
    groups = {}
    for record in records:
        if record["candidate"] < size:
            groups.setdefault((record["prompt"], record["search_seed"]), []).append(record)
    return [max(group, key=lambda record: record["score"]) for group in groups.values()]


def relations(args, sight, prompts):
    by_prompt = {prompt["prompt"]: prompt for prompt in prompts}
    results = {}
    for name, options in METHODS.items():
        if args.only and name not in args.only:
            continue
        searches = name.startswith("best of 32")
        some = prompts[::args.search_every] if searches else prompts
        seeds = args.seeds if name in ALL_SEEDS else 1
        records = paint(args, name, [prompt["prompt"] for prompt in some], options, seeds)
        if "--keep-all" in options:
            for size in SIZES:
                chosen = best_of(records, size)
                results[f"best of {size}"] = dict(judge_relations(sight, chosen, by_prompt), unet_calls=STEPS * size)
        else:
            result = judge_relations(sight, records, by_prompt)
            results[name] = dict(result, unet_calls=round(calls_per_picture(records), 1))
        for result in results.values():
            result.setdefault("options", " ".join(options))
        print(name, json.dumps(results[list(results)[-1]]), flush=True)
    return results


def homogenization(args, sight):
    """OTS-Bench: 100 |N_L − N_R| / (N_L + N_R), where N_L counts pictures with the first-mentioned object on the left."""
    pairs = [(a, b) for i, a in enumerate(world.NAMES) for b in world.NAMES[i + 1:]][::args.pair_every]
    prompts = {}
    for a, b in pairs:
        for x, y in ((a, b), (b, a)):
            prompts[world.neutral_caption(x, y)] = (x, y)
    records = paint(args, "neutral", list(prompts), [], args.pair_seeds)
    left = right = found = 0
    for record, here in zip(records, look(sight, records)):
        x, y = prompts[record["prompt"]]
        if sight.found(here, x) and sight.found(here, y):
            found += 1
            apart = here[y][1] - here[x][1]
            left += apart > 0.1
            right += apart < -0.1
    result = dict(pictures=len(records), found=share(found, len(records)), first_left=left, first_right=right,
                  homogenization=round(100 * abs(left - right) / max(left + right, 1), 1))
    print("neutral", json.dumps(result), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepose", type=Path, required=True, help="the program")
    parser.add_argument("--checkpoint", default="toybox")
    parser.add_argument("--prompts", type=Path, required=True, help="SpatialBench-UC's prompts.jsonl")
    parser.add_argument("--run", type=Path, required=True, help="the training folder (its judge)")
    parser.add_argument("--out", type=Path, required=True, help="where pictures go")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--card", type=Path, help="the checkpoint's card, to put its behaviour without guidance into")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--every", type=int, default=1, help="every n-th prompt")
    parser.add_argument("--search-every", type=int, default=1,
                        help="every n-th of those, for best of 32; odd, as four relations take turns")
    parser.add_argument("--pair-seeds", type=int, default=2, help="seeds for homogenization")
    parser.add_argument("--pair-every", type=int, default=6, help="every n-th pair of objects, for homogenization")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--only", nargs="*", help="these methods only")
    parser.add_argument("--no-order", action="store_true", help="leave the neutral prompts out")
    args = parser.parse_args()
    prompts = [json.loads(line) for line in args.prompts.read_text().splitlines()][::args.every]
    sight = Sight(args.run)
    command = (f"python scripts/toybox/evaluate.py --prepose prepose --run DIR --prompts prompts.jsonl --out OUT --json FILE "
               f"--seeds {args.seeds} --pair-seeds {args.pair_seeds} --every {args.every} --search-every {args.search_every} "
               f"--pair-every {args.pair_every}")
    if args.only:
        command += " --only " + " ".join(f'"{name}"' for name in args.only)
    result = dict(command=command, steps=STEPS, seeds=args.seeds, search_every=args.search_every, relations=relations(args, sight, prompts))
    result["order"] = None if args.no_order else homogenization(args, sight)
    args.json.write_text(json.dumps(result, indent=2, default=str) + "\n")
    if args.card:
        on_card = dict(
            relations=result["relations"]["prompt only"], order=result["order"],
            judge=json.loads((args.run / "judge.json").read_text()),
            settings=dict(scheduler="DDIM", steps=STEPS, guidance_scale=3.0, seeds=args.seeds, command=command))
        write_card(args.card, dict(measured=card_table(on_card), trained=training_table(args.run / "log.jsonl")))


if __name__ == "__main__":
    main()
