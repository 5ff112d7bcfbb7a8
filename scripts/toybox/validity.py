"""Whether the checker's verdicts are true: scenes whose truth is known, drawn here, judged by `prepose check`.

    python scripts/toybox/validity.py --prepose target/release/prepose --run DIR --out OUT --docs PAGE

DIR is the folder of a training run (its autoencoder, through which half of the pictures go, because generated pictures
are softer than drawings). The detector has never seen these scenes: they come from seeds of their own. OUT gets the
pictures, `manifest.jsonl`, the truth as `labels.json` in the form of SpatialBench-UC's human labels, and the
checker's records, from which `prepose audit analyze` draws the curve of risk against coverage; PAGE's folder gets it.

* decidable scenes: two objects side by side or one above the other, and a caption that is true or false;
* damaged: the same, blurred and noisy, so that the detector is often unsure;
* planted: objects level with each other in the direction that is asked for (near_boundary), one drawn over the other
  (high_overlap, or missing: of two opaque objects with such an overlap one is mostly hidden), one of them twice (ambiguous),
  one of them absent or spoiled (missing). The checker must abstain, for that reason.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageFilter

import world
from detector_data import blended_or_shuffled
from trained import on_card

RELATIONS = {"left_of": "to the left of", "right_of": "to the right of", "above": "above", "below": "below"}
OPPOSITE = {"left_of": "right_of", "right_of": "left_of", "above": "below", "below": "above"}
# What is planted, and the reasons that are right.
PLANTED = dict(near_boundary=("near_boundary",), high_overlap=("high_overlap", "missing"), ambiguous=("ambiguous",),
               missing=("missing",))


def two_things(rng, arrangement=None):
    while True:
        scene = world.random_scene(rng)
        if len(scene.things) == 2 and arrangement in (None, scene.arrangement):
            return scene


def question(rng, scene, truth):
    """A relation about the scene that is true or false, as (relation, name of A, name of B)."""
    a, b = (thing.name for thing in scene.things)  # a is on the left, or above
    relation = "left_of" if scene.arrangement == "side_by_side" else "above"
    if rng.random() < 0.5:
        relation, a, b = OPPOSITE[relation], b, a
    return (relation if truth else OPPOSITE[relation]), a, b


def decidable(rng):
    scene, truth = two_things(rng), rng.random() < 0.5
    return world.draw(scene), question(rng, scene, truth), "PASS" if truth else "FAIL"


def damaged(rng):
    picture, asked, truth = decidable(rng)
    blurred = Image.fromarray(picture).filter(ImageFilter.GaussianBlur(rng.uniform(1.5, 5)))
    noise = np.random.default_rng(rng.getrandbits(32)).normal(0, rng.uniform(0, 40), picture.shape)
    return (np.asarray(blurred) + noise).clip(0, 255).astype(np.uint8), asked, truth


def centre(thing):
    """Of what can be seen of it, x and y as shares of the picture."""
    ys, xs = np.nonzero(world.mask(thing))
    return (xs.min() + xs.max() + 1) / 2 / world.SIDE, (ys.min() + ys.max() + 1) / 2 / world.SIDE


def near_boundary(rng):
    """Asked for left or right where one stands above the other, or the other way round."""
    while True:
        scene = two_things(rng)
        apart = [abs(p - q) for p, q in zip(*map(centre, scene.things))]
        if apart[scene.arrangement == "side_by_side"] < 0.08:  # the margin is 0.1
            break
    a, b = (thing.name for thing in rng.sample(scene.things, 2))
    across = ("above", "below") if scene.arrangement == "side_by_side" else ("left_of", "right_of")
    return world.draw(scene), (rng.choice(across), a, b), "UNDECIDABLE"


def high_overlap(rng):
    """The second is drawn one cell beside the first, on top of it; asked for left or right."""
    first, second = rng.sample([n for n in world.NAMES if world.CELLS_OF[n] == 7], 2)
    x, y = rng.randint(0, 8), rng.randint(0, 9)
    things = (world.Thing(first, x, y), world.Thing(second, x + 1, y))
    scene = world.Scene(things, "crowded", world.random_background(rng))
    return world.draw(scene), (rng.choice(("left_of", "right_of")), first, second), "UNDECIDABLE"


def ambiguous(rng):
    """One of the two stands there twice."""
    quarters = rng.sample([(0, 0), (8, 0), (0, 8), (8, 8)], 3)
    first, second = rng.sample(world.NAMES, 2)
    things = tuple(world.Thing(name, x + rng.randint(0, 8 - world.CELLS_OF[name]),
                               y + rng.randint(0, 8 - world.CELLS_OF[name]))
                   for name, (x, y) in zip((first, first, second), quarters))
    scene = world.Scene(things, "crowded", world.random_background(rng))
    return world.draw(scene), (rng.choice(list(RELATIONS)), *rng.sample([first, second], 2)), "UNDECIDABLE"


def missing(rng):
    """One of the two is not there, or is spoiled so that it is no such thing."""
    scene = two_things(rng)
    gone = rng.choice(scene.things)
    kept = tuple(thing for thing in scene.things if thing is not gone)
    picture = world.draw(world.Scene(kept, "single", scene.background))
    if rng.random() < 0.5:
        x0, y0, x1, y1 = gone.box
        s = blended_or_shuffled(rng, gone.name)
        part = picture[y0:y1, x0:x1] / 255 * (1 - s[..., 3:]) + s[..., :3]
        picture[y0:y1, x0:x1] = (part * 255 + 0.5).clip(0, 255).astype(np.uint8)
    return picture, question(rng, scene, rng.random() < 0.5), "UNDECIDABLE"


@torch.no_grad()
def softened(autoencoder, picture):
    """The picture as the autoencoder draws it."""
    x = torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 127.5 - 1
    y = autoencoder.decode(autoencoder.encode(x).latent_dist.mode()).sample[0]
    return ((y.permute(1, 2, 0).clamp(-1, 1) + 1) * 127.5).round().byte().numpy()


def draw_all(out, autoencoder, scenes, each):
    rng = random.Random(20261122)
    (out / "images").mkdir(parents=True, exist_ok=True)
    kinds = [("decidable", decidable)] * scenes + [("damaged", damaged)] * scenes
    kinds += [(k, globals()[k]) for k in PLANTED] * each
    manifest, labels = [], []
    for index, (kind, make) in enumerate(kinds):
        picture, (relation, a, b), truth = make(rng)
        if index % 2:
            picture = softened(autoencoder, picture)
        name = f"{kind}_{index:05d}"
        Image.fromarray(picture).save(out / "images" / f"{name}.png")
        manifest.append(dict(sample_id=name, prompt_id=name, image_path=f"images/{name}.png", relation=relation,
                             object_a=a, object_b=b, prompt=f"a photo of a {a} {RELATIONS[relation]} a {b}."))
        labels.append(dict(sample_id=name, human_verdict=truth, notes=kind, timestamp="2026-11-22T00:00:00Z"))
    (out / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in manifest))
    (out / "labels.json").write_text(json.dumps([label for label in labels if label["human_verdict"] != "UNDECIDABLE"], indent=1))
    return {label["sample_id"]: (label["human_verdict"], label["notes"]) for label in labels}


def table(records, truth):
    decided = dict(decidable=Counter(), damaged=Counter())
    reasons = {kind: Counter() for kind in PLANTED}
    for record in records:
        wanted, kind = truth[record["sample_id"]]
        if kind in decided:
            decided[kind][wanted, record["verdict_raw"]] += 1
        else:
            reasons[kind][re.split("[: (]", record["verdict_reason"] or record["verdict_raw"])[0]] += 1
    share = lambda part, whole: f"{100 * part / max(whole, 1):.1f} % ({part} of {whole})"
    rows = []
    for kind, seen in decided.items():
        passed, failed = (sum(seen[wanted, verdict] for wanted in ("PASS", "FAIL")) for verdict in ("PASS", "FAIL"))
        rows += [(f"{kind}: PASS is true", share(seen["PASS", "PASS"], passed)),
                 (f"{kind}: FAIL is true", share(seen["FAIL", "FAIL"], failed)),
                 (f"{kind}: coverage", share(passed + failed, sum(seen.values())))]
    for kind, counter in reasons.items():
        total = sum(counter.values())
        right = sum(counter[reason] for reason in PLANTED[kind])
        others = ", ".join(f"{reason} {count}" for reason, count in counter.most_common() if reason not in PLANTED[kind])
        rows.append((f"planted {kind}: abstains as {' or '.join(PLANTED[kind])}",
                     share(right, total) + (f"; otherwise {others}" if others else "")))
    return "\n".join(["| | |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in rows)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepose", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--docs", type=Path, help="a page with <!-- validity --> marks")
    parser.add_argument("--scenes", type=int, default=600, help="decidable ones, and as many damaged ones")
    parser.add_argument("--each", type=int, default=100, help="planted ones of each kind")
    args = parser.parse_args()
    from diffusers import AutoencoderKL
    truth = draw_all(args.out, AutoencoderKL.from_pretrained(args.run / "vae").eval(), args.scenes, args.each)
    options = ["--checker", "toybox", "--batch", "16"]
    subprocess.run([str(args.prepose), "-q", "check", "--manifest", str(args.out / "manifest.jsonl"),
                    "--out", str(args.out / "checked"), *options], check=True, stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in (args.out / "checked/per_sample.jsonl").read_text().splitlines()]
    text = table(records, truth)
    print(text)
    # The curve is over decidable and damaged scenes.
    subprocess.run([str(args.prepose), "-q", "audit", "analyze", "--records", str(args.out / "checked/per_sample.jsonl"),
                    "--labels", str(args.out / "labels.json"), "--out", str(args.out / "analysis")], check=True,
                   stdout=subprocess.DEVNULL)
    if args.docs:
        command = (f"python scripts/toybox/validity.py --prepose prepose --run DIR --out OUT "
                   f"--scenes {args.scenes} --each {args.each} --docs docs/checker.md")
        for curve in (args.out / "analysis").glob("**/*.svg"):
            shutil.copy(curve, args.docs.parent / "checker-risk-coverage.svg")
        on_card(args.docs, "validity", lambda _: f"{text}\n\n```\n{command}\n```")
