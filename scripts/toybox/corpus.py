"""Training captions of the toybox with where everything was drawn: what `prepose corpus` is tried on.

    python scripts/toybox/corpus.py OUT --count 2000              # captions.jsonl and boxes.jsonl
    python scripts/toybox/corpus.py OUT --count 2000 --pictures   # and the drawings, with metadata.jsonl
    python scripts/toybox/corpus.py --fixture                     # fixtures/corpus

Captions and scenes are drawn as for the training (`world.py`): of two things side by side, a caption without a relation names
the left one first with probability `P_FIRST_IS_LEFT`. `boxes.jsonl` has the form of `prepose detect`'s lines, with the squares
that things were drawn in.
"""

import argparse
import json
import random
from pathlib import Path

import world


def sample(count, seed):
    """Yields scenes with their captions."""
    rng = random.Random(seed)
    for _ in range(count):
        scene = world.random_scene(rng)
        yield scene, world.random_caption(rng, scene)


def write(out, count, seed, pictures):
    out.mkdir(parents=True, exist_ok=True)
    captions, boxes = [], []
    for number, (scene, caption) in enumerate(sample(count, seed)):
        name = f"{number:06d}.png"
        key = "text" if pictures else "caption"
        line = {"file_name": name, key: caption}
        if not pictures:
            line |= {"width": world.SIDE, "height": world.SIDE}
        captions.append(json.dumps(line))
        found = [{"label": thing.name, "score": 1.0, "box_xyxy": list(thing.box)} for thing in scene.things]
        boxes.append(json.dumps({"id": f"{number:06d}", "file": name, "width": world.SIDE, "height": world.SIDE,
                                 "detector": "drawn", "detections": found}))
        if pictures:
            from PIL import Image

            Image.fromarray(world.draw(scene)).save(out / name)
    (out / ("metadata.jsonl" if pictures else "captions.jsonl")).write_text("\n".join(captions) + "\n")
    (out / "boxes.jsonl" if not pictures else out.parent / f"{out.name}-boxes.jsonl").write_text("\n".join(boxes) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pictures", action="store_true")
    parser.add_argument("--fixture", action="store_true")
    args = parser.parse_args()
    if args.fixture:
        write(Path(__file__).resolve().parents[2] / "fixtures/corpus", 1000, 17, False)
    elif args.out:
        write(args.out, args.count, args.seed, args.pictures)
    else:
        parser.error("OUT or --fixture is needed")


if __name__ == "__main__":
    main()
