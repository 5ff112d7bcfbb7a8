"""Measures a toybox checkpoint with the judge, and writes the numbers to a JSON file and the card.

* found: of the pictures for SpatialBench-UC's 200 prompts, those with both objects;
* right: of those, the pictures in which the stated relation holds (centres apart by any distance);
* homogenization (OTS-Bench): 100 |N_L - N_R| / (N_L + N_R) over the pictures for neutral prompts
  "a photo of a X and a Y.", where N_L counts those with the first-mentioned object on the left. A
  picture counts if both objects are found and their centres are apart by more than a tenth of the
  picture's width; both orders of each pair are asked for.
"""

import argparse
import json
import re
import time
from pathlib import Path

import numpy as np
import torch
from diffusers import StableDiffusionPipeline

import autoencoder
import denoiser
import text_encoder
import world
from judge import Sight



def true_relation(relation, a, b):
    """Whether `relation` holds for two centres (x, y) with y downwards."""
    return dict(left_of=a[0] < b[0], right_of=a[0] > b[0], above=a[1] < b[1],
                below=a[1] > b[1])[relation]


class Painter:
    def __init__(self, folder, steps, guidance_scale, batch):
        self.pipeline = StableDiffusionPipeline.from_pretrained(folder).to(torch.float32)
        self.pipeline.set_progress_bar_config(disable=True)
        self.settings = dict(num_inference_steps=steps, guidance_scale=guidance_scale)
        self.batch = batch

    def paint(self, jobs):
        """Yields (job, picture uint8) for jobs (prompt, seed, ...), each with noise of its own seed."""
        for i in range(0, len(jobs), self.batch):
            some = jobs[i:i + self.batch]
            pictures = self.pipeline(
                [job[0] for job in some], output_type="np", **self.settings,
                generator=[torch.Generator().manual_seed(job[1]) for job in some]).images
            for job, picture in zip(some, pictures):
                yield job, (picture * 255).round().astype(np.uint8)


def see(sight, pictures):
    x = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 127.5 - 1
    return [seen for part in x.split(64) for seen in sight.look(part)]


def share(part, whole):
    """A percentage with its standard error."""
    p = part / max(whole, 1)
    return dict(count=part, of=whole, percent=round(100 * p, 1),
                standard_error=round(100 * (p * (1 - p) / max(whole, 1)) ** 0.5, 1))


def measure_relations(painter, sight, prompts, seeds):
    jobs = [(p["prompt"], seed, p) for p in prompts for seed in range(seeds)]
    painted = list(painter.paint(jobs))
    seen = see(sight, [picture for _, picture in painted])
    found, right, by_relation = 0, 0, {}
    for ((_, _, p), _), here in zip(painted, seen):
        a, b, relation = p["object_a"]["name"], p["object_b"]["name"], p["relation"]
        tally = by_relation.setdefault(relation, [0, 0])
        if sight.found(here, a) and sight.found(here, b):
            ok = true_relation(relation, here[a][1:], here[b][1:])
            found, right = found + 1, right + ok
            tally[0] += 1
            tally[1] += ok
    result = dict(pictures=len(jobs), found=share(found, len(jobs)), right=share(right, found),
                  right_by_relation={k: share(r, f) for k, (f, r) in by_relation.items()})
    return result, painted


def measure_order(painter, sight, prompts, seeds):
    pairs = sorted({tuple(sorted((p["object_a"]["name"], p["object_b"]["name"]))) for p in prompts})
    jobs = [(f"a photo of a {x} and a {y}.", seed, x, y)
            for a, b in pairs for x, y in ((a, b), (b, a)) for seed in range(seeds)]
    painted = list(painter.paint(jobs))
    left = right = found = 0
    for ((_, _, x, y), _), here in zip(painted, see(sight, [picture for _, picture in painted])):
        if sight.found(here, x) and sight.found(here, y):
            found += 1
            apart = here[x][1] - here[y][1]
            left, right = left + (apart < -0.1), right + (apart > 0.1)
    return dict(pictures=len(jobs), found=share(found, len(jobs)), first_left=left, first_right=right,
                homogenization=round(100 * abs(left - right) / max(left + right, 1), 1)), painted


def card_table(result):
    r, o, s, j = result["relations"], result["order"], result["settings"], result["judge"]
    percent = lambda v: (f"{v['percent']} ± {v['standard_error']} % ({v['count']} of {v['of']})"
                         if v["of"] else "no picture counts")
    rows = [
        ("both objects found, SpatialBench-UC prompts", percent(r["found"])),
        ("relation right, of those", percent(r["right"])),
        *((f"– {k.replace('_', ' ')}", percent(v)) for k, v in r["right_by_relation"].items()),
        ("both objects found, neutral prompts", percent(o["found"])),
        ("homogenization of neutral prompts",
         f"{o['homogenization']} (first-mentioned left {o['first_left']}, right {o['first_right']})"),
    ]
    lines = ["| | |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in rows), "",
             f"{s['scheduler']}, {s['steps']} steps, guidance scale {s['guidance_scale']}, "
             f"f32 computation, seeds 0 to {s['seeds'] - 1}. Measured by:", "",
             "```", s["command"], "```", "",
             f"The judge, on {j['drawings']} held-out drawings: {100 * j['objects_found']:.1f} % of the "
             f"objects found; an absent object claimed in "
             f"{100 * j['scenes_with_absent_object_claimed']:.1f} % of the drawings; "
             f"{100 * j['spoiled_objects_accepted']:.1f} % of spoiled objects (blended or shuffled) "
             f"accepted as something; centres off by {100 * j['mean_centre_error_per_axis']:.1f} % of "
             f"the side on average."]
    return "\n".join(lines)


def training_table(log):
    """The last line that each stage wrote to the training log."""
    last = {}
    for line in log.read_text().splitlines():
        record = json.loads(line)
        last[record["stage"]] = record
    rows = [f"| {name} | {r['step']:,} | {BATCHES[name]} | {r['minutes']:.0f} |"
            for name, r in last.items() if name in BATCHES]
    return "\n".join(["| stage | steps | samples a step | minutes |", "| --- | --- | --- | --- |", *rows])


BATCHES = dict(text_encoder=text_encoder.BATCH, unet=denoiser.BATCH * denoiser.USUAL_WORKERS,
               decoder=autoencoder.BATCH, encoder=autoencoder.BATCH)


def write_card(card, blocks):
    """Replaces what stands between <!-- name --> and <!-- /name --> for each block."""
    text = card.read_text(encoding="utf-8")
    for name, block in blocks.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        text, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{block}\n{end}", text, flags=re.S)
        if count != 1:
            raise SystemExit(f"{card} has no place marked {begin} … {end}")
    card.write_text(text, encoding="utf-8")


def measure(args):
    started = time.time()
    prompts = [json.loads(line) for line in args.prompts.read_text().splitlines()]
    prompts = [p for i, p in enumerate(prompts) if i // 4 % args.every == 0]
    painter = Painter(args.checkpoint, args.steps, args.guidance_scale, args.batch)
    sight = Sight(args.run)
    relations, painted = measure_relations(painter, sight, prompts, args.seeds)
    order, more = measure_order(painter, sight, prompts, args.seeds)
    command = (f"python scripts/toybox/measure.py --checkpoint {args.checkpoint.name} "
               f"--prompts prompts.jsonl --run DIR --json measured.json --steps {args.steps} "
               f"--guidance-scale {args.guidance_scale} --seeds {args.seeds} --every {args.every}")
    result = dict(
        settings=dict(steps=args.steps, guidance_scale=args.guidance_scale, seeds=args.seeds,
                      every=args.every, command=command, seconds=round(time.time() - started),
                      scheduler=type(painter.pipeline.scheduler).__name__),
        relations=relations, order=order, judge=json.loads((args.run / "judge.json").read_text()))
    args.json.write_text(json.dumps(result, indent=2) + "\n")
    if args.card:
        write_card(args.card, dict(measured=card_table(result),
                                   trained=training_table(args.run / "log.jsonl")))
    if args.sheet:
        pick = painted[:: max(1, len(painted) // 36)][:36] + more[:: max(1, len(more) // 12)][:12]
        for (prompt, *_), _ in pick:
            print(prompt)
        world.contact_sheet([picture for _, picture in pick], 12).save(args.sheet)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True, help="SpatialBench-UC's prompts.jsonl")
    parser.add_argument("--run", type=Path, required=True, help="the training folder (its judge)")
    parser.add_argument("--json", type=Path, required=True, help="where the measurements go")
    parser.add_argument("--card", type=Path, help="a card to put the numbers into")
    parser.add_argument("--sheet", type=Path, help="write pictures here, to look at")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--guidance-scale", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--every", type=int, default=1, help="measure every n-th pair of prompts")
    parser.add_argument("--batch", type=int, default=20)
    measure(parser.parse_args())
