"""Training captions of the toybox with where everything was drawn: what `prepose corpus` is tried on.

    python scripts/toybox/corpus.py OUT --count 2000              # captions.jsonl and boxes.jsonl
    python scripts/toybox/corpus.py OUT --count 2000 --pictures   # and the drawings, with metadata.jsonl
    python scripts/toybox/corpus.py --fixture                     # fixtures/corpus

Captions and scenes are drawn as for the training (`world.py`): of two things side by side, a caption without a relation names
the left one first with probability `P_FIRST_IS_LEFT`. `boxes.jsonl` has the form of `prepose detect`'s lines, with the squares
that things were drawn in. `metadata.jsonl` has boxes as shares of the picture, with phrases ("a dog"): what `prepose train gligen` learned the
toybox's own layers from (weights/toybox/gligen). Things of the toybox have one size, and people's boxes have not: with --loose most of
these boxes are wider or narrower, taller or flatter than the thing, around nearly the same centre.
"""

import argparse
import json
import random
from pathlib import Path

import world


# Of loose boxes: the share that is exact all the same, how far a centre is off, and a side, as shares of the picture.
LOOSE = {"exact": 0.25, "off": 0.02, "side": (0.26, 0.56)}


def sample(count, seed, pairs=False):
    """Yields scenes with their captions; with `pairs`, of two things that are as often one above the other as side by side."""
    rng = random.Random(seed)
    made = 0
    while made < count:
        scene = world.random_scene(rng)
        if pairs and scene.arrangement != ("side_by_side", "stacked")[made % 2]:
            continue
        made += 1
        yield scene, world.random_caption(rng, scene)


def alone(scene, rng):
    """One of the things of a scene somewhere else, on another ground."""
    name = rng.choice(scene.things).name
    slack = world.GRID - world.CELLS_OF[name]
    thing = world.Thing(name, rng.randint(0, slack), rng.randint(0, slack))
    return world.Scene((thing,), "single", world.random_background(rng))


def shares(thing, rng):
    """The square that the thing was drawn in as shares of the picture; with `rng`, mostly a box as somebody might draw it there."""
    x0, y0, x1, y1 = (side / world.SIDE for side in thing.box)
    if not rng or rng.random() < LOOSE["exact"]:
        return [x0, y0, x1, y1]
    sides = []
    for low, high in ((x0, x1), (y0, y1)):
        centre = (low + high) / 2 + rng.uniform(-LOOSE["off"], LOOSE["off"])
        half = rng.uniform(*LOOSE["side"]) / 2
        sides.append((round(max(0.0, centre - half), 4), round(min(1.0, centre + half), 4)))
    return [sides[0][0], sides[1][0], sides[0][1], sides[1][1]]


def write(out, count, seed, pictures, loose=False, pairs=False, shown=False):
    out.mkdir(parents=True, exist_ok=True)
    captions, boxes = [], []
    rng = random.Random(f"{seed} boxes") if loose else None
    other = random.Random(f"{seed} shown")
    for number, (scene, caption) in enumerate(sample(count, seed, pairs)):
        name = f"{number:06d}.png"
        key = "text" if pictures else "caption"
        line = {"file_name": name, key: caption}
        if not pictures:
            line |= {"width": world.SIDE, "height": world.SIDE}
        else:
            line["objects"] = [{"phrase": f"a {thing.name}", "box": shares(thing, rng)} for thing in scene.things]
        found = [{"label": thing.name, "score": 1.0, "box_xyxy": list(thing.box)} for thing in scene.things]
        boxes.append(json.dumps({"id": f"{number:06d}", "file": name, "width": world.SIDE, "height": world.SIDE,
                                 "detector": "drawn", "detections": found}))
        if pictures:
            from PIL import Image

            Image.fromarray(world.draw(scene)).save(out / name)
            if shown and other.random() < 0.5:
                line["ip_picture"] = f"{number:06d}-shown.png"
                Image.fromarray(world.draw(alone(scene, other))).save(out / line["ip_picture"])
        captions.append(json.dumps(line))
    (out / ("metadata.jsonl" if pictures else "captions.jsonl")).write_text("\n".join(captions) + "\n")
    (out / "boxes.jsonl" if not pictures else out.parent / f"{out.name}-boxes.jsonl").write_text("\n".join(boxes) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pictures", action="store_true")
    parser.add_argument("--loose", action="store_true", help="with --pictures: boxes as people draw them")
    parser.add_argument("--pairs", action="store_true", help="two things in each, as often one above the other as side by side")
    parser.add_argument("--shown", action="store_true", help="with --pictures: half of them with a picture of one of their things to be shown")
    parser.add_argument("--fixture", action="store_true")
    args = parser.parse_args()
    if args.fixture:
        write(Path(__file__).resolve().parents[2] / "fixtures/corpus", 1000, 17, False)
    elif args.out:
        write(args.out, args.count, args.seed, args.pictures, args.loose, args.pairs, args.shown)
    else:
        parser.error("OUT or --fixture is needed")


if __name__ == "__main__":
    main()
