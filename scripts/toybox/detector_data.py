"""Writes a detector's training data: pictures, boxes and masks of toybox scenes, as COCO JSON.

OUT/images/000000.png …, and OUT/annotations.json with `images`, `annotations` (bbox [x, y, w, h] of the
visible pixels; segmentation as uncompressed RLE in column order, as pycocotools reads it; area) and
`categories` (the 35 objects, ids from 1 in the order of `world.NAMES`). The same seed gives the same data.
"""

import argparse
import json
import random
from pathlib import Path

import numpy as np
from PIL import Image

import world


def run_lengths(mask):
    """COCO's uncompressed RLE: alternating lengths of zeros and ones, down the columns."""
    flat = mask.T.reshape(-1).astype(np.int8)
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff([0, *edges, flat.size]).tolist()
    return dict(size=list(mask.shape), counts=[0, *counts] if flat[0] else counts)


def annotation(thing, visible, image_id, annotation_id):
    ys, xs = np.nonzero(visible)
    box = [int(xs.min()), int(ys.min()), int(np.ptp(xs)) + 1, int(np.ptp(ys)) + 1]
    return dict(id=annotation_id, image_id=image_id, category_id=world.NAMES.index(thing.name) + 1,
                bbox=box, area=int(visible.sum()), iscrowd=0, segmentation=run_lengths(visible))


def write(out, count, seed, crowded):
    rng = random.Random(seed)
    (out / "images").mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for i in range(count):
        scene = (world.crowded_scene if rng.random() < crowded else world.random_scene)(rng)
        name = f"{i:06d}.png"
        Image.fromarray(world.draw(scene)).save(out / "images" / name)
        images.append(dict(id=i, file_name=name, width=world.SIDE, height=world.SIDE,
                           caption=world.random_caption(rng, scene) if scene.arrangement != "crowded"
                           else None))
        for thing in scene.things:  # objects never overlap, so all of a mask is visible
            annotations.append(annotation(thing, world.mask(thing), i, len(annotations)))
    categories = [dict(id=k + 1, name=name, supercategory=world.HYPERNYM_OF[name])
                  for k, name in enumerate(world.NAMES)]
    (out / "annotations.json").write_text(json.dumps(
        dict(images=images, annotations=annotations, categories=categories)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--crowded", type=float, default=0.3,
                        help="share of scenes with two to four objects in the quarters")
    args = parser.parse_args()
    write(args.out, args.count, args.seed, args.crowded)
