"""The judge: names what it sees in a picture, cell by cell, without knowing the caption.

A small convolutional network labels each of the 16 x 16 cells with an object, "background" or
"unknown". It learns from fresh drawings only, never from generated pictures, shifted off the grid and
disturbed by noise, blur and changes of brightness, so that it cannot rely on exact pixels. To keep it
from being kind to half-formed pictures, a part of the drawn objects are spoiled (blended with another
object, or with their pieces shuffled) and must be called unknown.

An object counts as found if at least half of the cells that it would cover carry its name with
more than half of the probability. `calibrate` measures on held-out drawings what that rule finds, invents
and forgives.
"""

import argparse
import json
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import world
from autoencoder import to_tensor
from training import Stage

BACKGROUND, UNKNOWN = 0, len(world.NAMES) + 1
BATCH = 16


class Judge(nn.Module):
    """[N, 3, 128, 128] in -1..1 -> logits [N, 37, 16, 16]."""

    def __init__(self):
        super().__init__()
        block = lambda cin, cout, **kw: nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=kw.get("dilation", 1), **kw), nn.BatchNorm2d(cout),
            nn.ReLU())
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 6, stride=4, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            block(32, 64, stride=2), block(64, 96), block(96, 96, dilation=2), block(96, 96),
            nn.Conv2d(96, UNKNOWN + 1, 1))

    def forward(self, x):
        return self.layers(x)


def spoiled(rng, name):
    """The sprite of an object that should not be recognised, [side, side, 4], premultiplied."""
    s = world.sprite(name).copy()
    if rng.random() < 0.6:  # half of this and half of another one
        other = world.sprite(rng.choice([n for n in world.NAMES
                                         if n != name and world.CELLS_OF[n] == world.CELLS_OF[name]]))
        share = rng.uniform(0.4, 0.6)
        return share * s + (1 - share) * other
    half = len(s) // 2  # its quarters in another order
    parts = [s[:half, :half], s[:half, half:], s[half:, :half], s[half:, half:]]
    turn = rng.randint(1, 3)
    a, b, c, d = parts[turn:] + parts[:turn]
    return np.concatenate([np.concatenate([a, b], 1), np.concatenate([c, d], 1)], 0)


def drawing(rng, disturb):
    """One picture, float [128, 128, 3] in 0..1, with its labels [16, 16]."""
    scene = world.crowded_scene(rng) if rng.random() < 0.3 else world.random_scene(rng)
    picture = world.draw(scene).astype(np.float32) / 255
    labels = np.zeros((world.SIDE, world.SIDE), np.int64)
    for thing in scene.things:
        x0, y0, x1, y1 = thing.box
        covered = world.sprite(thing.name)[..., 3] > 0.5
        label = world.NAMES.index(thing.name) + 1
        if disturb and rng.random() < 0.2:
            s, label = spoiled(rng, thing.name), UNKNOWN
            plain = world.draw(world.Scene((), "single", scene.background))[y0:y1, x0:x1] / 255
            picture[y0:y1, x0:x1] = plain * (1 - s[..., 3:]) + s[..., :3]
            covered = s[..., 3] > 0.3
        labels[y0:y1, x0:x1][covered] = label
    if disturb:
        shift = (rng.randint(-8, 8), rng.randint(-8, 8))
        edges = ((8, 8), (8, 8))
        window = np.s_[8 + shift[0]:8 + shift[0] + world.SIDE, 8 + shift[1]:8 + shift[1] + world.SIDE]
        picture = np.pad(picture, (*edges, (0, 0)), mode="edge")[window]
        labels = np.pad(labels, edges)[window]
        picture = picture * rng.uniform(0.85, 1.1) + rng.uniform(-0.05, 0.05)
        if rng.random() < 0.5:
            picture = picture + np.random.default_rng(rng.getrandbits(32)).normal(
                0, rng.uniform(0, 0.06), picture.shape).astype(np.float32)
    return picture.clip(0, 1), label_cells(labels), scene


def batch(rng, size, disturb):
    drawings = [drawing(rng, disturb) for _ in range(size)]
    x = torch.from_numpy(np.stack([d[0] for d in drawings])).permute(0, 3, 1, 2).float() * 2 - 1
    if disturb and rng.random() < 0.5:  # a slight blur
        x = torch.lerp(x, F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1), rng.random())
    return x, torch.from_numpy(np.stack([d[1] for d in drawings])), [d[2] for d in drawings]


def label_cells(labels):
    """Pixel labels [128, 128] -> cell labels [16, 16]: the commonest, if it covers over a third."""
    cells = labels.reshape(16, 8, 16, 8).transpose(0, 2, 1, 3).reshape(256, 64)
    grid = np.zeros(256, np.int64)
    for i, cell in enumerate(cells):
        counts = np.bincount(cell[cell > 0]) if cell.any() else None
        if counts is not None and counts.max() > 21:
            grid[i] = counts.argmax()
    return grid.reshape(16, 16)


def usual_cells():
    """How many cells each object covers when it is drawn."""
    return {n: int(label_cells(world.mask(world.Thing(n, 4, 4)).astype(np.int64)).sum())
            for n in world.NAMES}


USUAL_CELLS = usual_cells()
ENOUGH = 0.5


class Sight:
    """What the judge sees in pictures: {name: (share, x, y)} for each.

    `share` is the number of cells with that name over the usual number; x, y the centre in 0..1.
    """

    def __init__(self, out):
        self.net = Judge()
        saved = torch.load(Path(out) / "judge.pt", weights_only=True)
        self.net.load_state_dict(saved["net"])
        self.net.eval()

    @torch.no_grad()
    def look(self, x):
        certain, labels = self.net(x).softmax(1).max(1)
        labels = torch.where(certain > 0.5, labels, BACKGROUND)
        seen = []
        for grid in labels:
            here = {}
            for label in grid.unique().tolist():
                if label in (BACKGROUND, UNKNOWN):
                    continue
                name = world.NAMES[label - 1]
                ys, xs = torch.nonzero(grid == label, as_tuple=True)
                here[name] = (len(xs) / USUAL_CELLS[name], (xs.float().mean().item() + 0.5) / world.GRID,
                              (ys.float().mean().item() + 0.5) / world.GRID)
            seen.append(here)
        return seen

    def found(self, seen, name):
        return name in seen and seen[name][0] >= ENOUGH


def calibrate(out, count=600):
    """Measures the judge on held-out drawings."""
    sight = Sight(out)
    tally = dict(objects=0, found=0, scenes=0, absent_claimed=0, centre_error=0.0, spoiled=0,
                 spoiled_accepted=0)
    rng = random.Random(6)
    for _ in range(count // 20):
        x, _, scenes = batch(rng, 20, disturb=False)
        for seen, scene in zip(sight.look(x), scenes):
            names = [t.name for t in scene.things]
            tally["scenes"] += 1
            tally["absent_claimed"] += any(sight.found(seen, n) and n not in names for n in seen)
            for t in scene.things:
                if names.count(t.name) == 1:
                    tally["objects"] += 1
                    if sight.found(seen, t.name):
                        tally["found"] += 1
                        cx, cy = (t.x + t.size / 2) / 16, (t.y + t.size / 2) / 16
                        tally["centre_error"] += abs(cx - seen[t.name][1]) + abs(cy - seen[t.name][2])
    for _ in range(count):  # spoiled objects alone on a background: anything named is a mistake
        name, background = rng.choice(world.NAMES), world.random_background(rng)
        picture = world.draw(world.Scene((), "single", background)).astype(np.float32) / 255
        s = spoiled(rng, name)
        n = len(s)
        picture[32:32 + n, 32:32 + n] = picture[32:32 + n, 32:32 + n] * (1 - s[..., 3:]) + s[..., :3]
        seen = sight.look(to_tensor([(picture * 255).astype(np.uint8)]))[0]
        tally["spoiled"] += 1
        tally["spoiled_accepted"] += any(sight.found(seen, n) for n in seen)
    result = dict(
        enough=ENOUGH,
        objects_found=round(tally["found"] / tally["objects"], 4),
        scenes_with_absent_object_claimed=round(tally["absent_claimed"] / tally["scenes"], 4),
        spoiled_objects_accepted=round(tally["spoiled_accepted"] / tally["spoiled"], 4),
        mean_centre_error_per_axis=round(tally["centre_error"] / 2 / tally["found"], 4),
        drawings=tally["scenes"])
    (out / "judge.json").write_text(json.dumps(result, indent=2) + "\n")
    print(result)


def train(out, minutes):
    torch.manual_seed(4)
    net, rng = Judge(), random.Random()
    weights = torch.ones(UNKNOWN + 1)
    weights[BACKGROUND] = 0.4
    stage = Stage(out, "judge", [net], minutes, 1.5e-3, ema=0.0, weight_decay=0.01, flat_until=0.3)
    while stage.running():
        x, labels, _ = batch(rng, BATCH, disturb=True)
        logits = net(x)
        right = (logits.argmax(1) == labels)[labels > 0].float().mean()
        stage.step(F.cross_entropy(logits, labels, weight=weights), right=right)
    torch.save({"net": net.state_dict()}, out / "judge.pt")
    calibrate(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    args = parser.parse_args()
    train(args.out, args.minutes)
