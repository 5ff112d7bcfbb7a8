"""Pictures with known truth for the toybox detector: what is in them, and what must not be named.

Three sources:

* `drawing`: scenes drawn on the fly, also with overlapping, cut and repeated objects, under the mild
  disturbances that a detector must bear, and with objects spoiled beyond recognition;
* the *bank* (`make_bank`): decoded and generated pictures of a toybox checkpoint. Their truth comes from the
  pixels, not from a caption: `explain` compares every place with every sprite;
* `clean_drawing`: held-out scenes as the checkpoint was trained on, to measure with.

As a script it writes clean scenes as COCO JSON, to train other detectors on: OUT/images/000000.png …, and
OUT/annotations.json with `images`, `annotations` (bbox [x, y, w, h] of the visible pixels; segmentation as
uncompressed RLE in column order, as pycocotools reads it; area) and `categories` (the 35 objects, ids from 1 in
the order of `world.NAMES`). The same seed gives the same data.
"""

import argparse
import io
import json
import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import fft, ndimage

import world

SIDE = world.SIDE
# Labels of objects: 1 to 35 are the names; the other two only matter in training.
SPOILED = -2  # something is there that must not be named
EITHER = -1  # naming it is neither right nor wrong: half of it is hidden, or it is half melted

# An object counts as seen if this share of its pixels is visible, and as not there below the second.
SEEN, HIDDEN = 0.5, 0.25
# Standard deviations of blur in pixels: up to the first an object is recognisable, from the second on it is not.
MILD_BLUR, STRONG_BLUR = 1.6, 5.0
# Squared error of a sprite at its best place, as a share of what a plain background would have: up to the first
# it is that object, from the second on it is none. Details of less than about `DETAIL` pixels do not count.
SAME, OTHER, DETAIL = 0.15, 0.3, 1.5


def blended_or_shuffled(rng, name):
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


@dataclass
class Example:
    """One picture, uint8 [128, 128, 3], and its objects: label, name (also of spoiled ones, if it has one) and
    visible pixels, bool [128, 128]."""

    picture: np.ndarray
    objects: list = field(default_factory=list)

    def things(self):
        """Those that a detector must find, as (label, mask)."""
        return [(label, mask) for label, _, mask in self.objects if label > 0]


def box_of(mask):
    """(x0, y0, x1, y1) around the pixels of a mask."""
    ys, xs = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return int(xs[0]), int(ys[0]), int(xs[-1]) + 1, int(ys[-1]) + 1


# --- Sprites, well and badly drawn --------------------------------------------------------------


def blur(sprite, sigma):
    return ndimage.gaussian_filter(np.pad(sprite, ((12, 12), (12, 12), (0, 0))), (sigma, sigma, 0),
                                   truncate=3)


def warp(noise, sprite, amplitude):
    """Moves the pixels along a smooth random field of the given standard deviation in pixels."""
    side = len(sprite)
    fine = ndimage.zoom(noise.normal(0, amplitude, (2, 6, 6)), (1, side / 6, side / 6), order=1)
    where = np.mgrid[:side, :side] + fine
    return np.stack([ndimage.map_coordinates(sprite[..., c], where, order=1) for c in range(4)], -1)


def scaled(sprite, factor):
    side = max(8, round(len(sprite) * factor))
    return np.stack([np.asarray(Image.fromarray(sprite[..., c]).resize((side, side), Image.BILINEAR))
                     for c in range(4)], -1)


def mildly_changed(rng, noise, sprite):
    """As a decoder might draw it: softer, paler, a little bent or of another size. Still the object."""
    change = rng.random()
    if change < 0.35:
        return blur(sprite, rng.uniform(0.3, MILD_BLUR))
    if change < 0.6:
        return warp(noise, sprite, rng.uniform(0.3, 1.2))
    if change < 0.8:
        return sprite * np.float32(rng.uniform(0.7, 1.0))
    return scaled(sprite, rng.uniform(0.92, 1.08))


def chimera(rng, _, name):
    """One half of an object beside the other half of another."""
    other = world.sprite(rng.choice([n for n in world.NAMES
                                     if n != name and world.CELLS_OF[n] == world.CELLS_OF[name]]))
    sprite = world.sprite(name).copy()
    half = np.s_[:, len(sprite) // 2:] if rng.random() < 0.5 else np.s_[len(sprite) // 2:]
    sprite[half] = other[half]
    return sprite


# What must not be recognised as the object, or as any other.
RUINS = {
    "half another object, or in pieces": lambda rng, _, name: blended_or_shuffled(rng, name),
    "blurred by 5 to 9 pixels": lambda rng, _, name: blur(world.sprite(name), rng.uniform(STRONG_BLUR, 9.0)),
    "bent by 7 to 12 pixels": lambda rng, noise, name: warp(noise, world.sprite(name), rng.uniform(7.0, 12.0)),
    "paler than 30 %": lambda rng, _, name: world.sprite(name) * np.float32(rng.uniform(0.1, 0.3)),
    "two halves of two objects": chimera,
}
RUIN_SHARES = (0.35, 0.08, 0.22, 0.05, 0.3)  # the hard kinds more often


def ruined(rng, noise, name):
    (ruin,) = rng.choices(list(RUINS.values()), RUIN_SHARES)
    return ruin(rng, noise, name)


# --- Drawings -----------------------------------------------------------------------------------


def paste(picture, owner, index, sprite, x, y):
    """Draws a sprite with its corner at (x, y), perhaps partly outside; notes whose pixels they are now.
    Returns how many pixels all of it covers."""
    covers = sprite[..., 3] > min(0.5, 0.5 * sprite[..., 3].max())
    x0, y0 = max(x, 0), max(y, 0)
    x1, y1 = min(x + sprite.shape[1], SIDE), min(y + sprite.shape[0], SIDE)
    if x0 < x1 and y0 < y1:
        part = np.s_[y0 - y:y1 - y, x0 - x:x1 - x]
        here = picture[y0:y1, x0:x1]
        here *= 1 - sprite[part][..., 3:]
        here += sprite[part][..., :3]
        owner[y0:y1, x0:x1][covers[part]] = index
    return int(covers.sum())


def layout(rng):
    """Names and corners in pixels, back to front."""
    kind = rng.random()
    if kind < 0.45:
        scene = (world.random_scene if kind < 0.25 else world.crowded_scene)(rng)
        dx, dy = (rng.randint(-8, 8), rng.randint(-8, 8)) if rng.random() < 0.6 else (0, 0)
        return [(t.name, t.x * world.CELL + dx, t.y * world.CELL + dy) for t in scene.things]
    names = [rng.choice(world.NAMES) for _ in range(rng.choice((1, 2, 2, 2, 3, 3, 4)))]
    if len(names) > 1 and rng.random() < 0.4:
        names[1] = names[0]  # the same twice
    placed = []
    for name in names:
        side = world.CELLS_OF[name] * world.CELL
        beyond = side // 2 if rng.random() < 0.3 else 0  # now and then cut by the border
        for _ in range(4):  # mostly beside the others
            x, y = (rng.randint(-beyond, SIDE - side + beyond) for _ in "xy")
            if rng.random() < 0.25 or all(abs(x - a) >= 40 or abs(y - b) >= 40 for _, a, b in placed):
                break
        placed.append((name, x, y))
    return placed


def disturbed(rng, noise, picture):
    """What happens to a whole picture without making anything in it unrecognisable; float in 0..1."""
    if rng.random() < 0.6:
        picture = picture * rng.uniform(0.8, 1.15) + rng.uniform(-0.05, 0.05)
        picture = picture * noise.uniform(0.94, 1.06, 3).astype(np.float32)
    softening = rng.random()
    if softening < 0.3:
        sigma = rng.uniform(0.3, MILD_BLUR)
        picture = ndimage.gaussian_filter(picture, (sigma, sigma, 0), mode="nearest", truncate=3)
    if rng.random() < 0.3:
        picture = picture + noise.normal(0, rng.uniform(0.005, 0.05), picture.shape).astype(np.float32)
    picture = (picture.clip(0, 1) * 255 + 0.5).astype(np.uint8)
    if 0.3 < softening < 0.45:
        side = rng.randint(96, 124)
        picture = np.asarray(Image.fromarray(picture).resize((side, side), Image.LANCZOS)
                             .resize((SIDE, SIDE), Image.LANCZOS))
    elif 0.45 < softening < 0.5:
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=rng.randint(40, 90))
        picture = np.asarray(Image.open(file))
    return picture


def drawing(rng):
    """A scene for training."""
    noise = np.random.default_rng(rng.getrandbits(64))
    picture = world.draw(world.Scene((), "none", world.random_background(rng))).astype(np.float32) / 255
    owner = np.full((SIDE, SIDE), -1, np.int8)
    placed = layout(rng)
    blurred_whole = rng.random() < 0.03
    drawn = []
    for index, (name, x, y) in enumerate(placed):
        sprite, label = world.sprite(name), world.NAMES.index(name) + 1
        centre = len(sprite) // 2
        if rng.random() < 0.35:
            sprite, label = ruined(rng, noise, name), SPOILED
        elif rng.random() < 0.35:
            sprite = mildly_changed(rng, noise, sprite)
        x, y = x + centre - sprite.shape[1] // 2, y + centre - sprite.shape[0] // 2
        drawn.append((label, name, paste(picture, owner, index, sprite, x, y)))
    if blurred_whole:
        sigma = rng.uniform(STRONG_BLUR, 8.0)
        picture = ndimage.gaussian_filter(picture, (sigma, sigma, 0), mode="nearest", truncate=3)
    example = Example(disturbed(rng, noise, picture))
    for index, (label, name, full) in enumerate(drawn):
        mask = owner == index
        visible = mask.sum() / full
        if visible < HIDDEN or mask.sum() < 60:
            continue
        if visible < SEEN:  # a half of a chimera is a half of an object
            label = EITHER
        example.objects.append((SPOILED if blurred_whole else label, name, mask))
    return example


def clean_scene(rng, crowded=0.3):
    return (world.crowded_scene if rng.random() < crowded else world.random_scene)(rng)


def clean_drawing(scene):
    """A scene of the world, as it is."""
    return Example(world.draw(scene), [(world.NAMES.index(t.name) + 1, t.name, world.mask(t)) for t in scene.things])


# --- What a picture shows, by its pixels ---------------------------------------------------------

_FFT = 192  # at least SIDE + 56, so that nothing wraps around


@cache
def templates():
    """For each name, float [35, 56, 56, 5]: colour without fine detail where the sprite is solid and 0 elsewhere;
    where that is; and the empty corners of its square."""
    planes = np.zeros((len(world.NAMES), 56, 56, 5), np.float32)
    for template, name in zip(planes, world.NAMES):
        s = world.sprite(name)
        n = len(s)
        solid = s[..., 3] > 0.5
        soft = np.stack([ndimage.gaussian_filter(s[..., c], DETAIL, mode="constant") for c in range(4)], -1)
        template[:n, :n, :3] = soft[..., :3] / np.maximum(soft[..., 3:], 0.1) * solid[..., None]
        template[:n, :n, 3] = solid
        template[:n, :n, 4] = ~ndimage.binary_dilation(s[..., 3] > 0.05, iterations=2)
    return planes


@cache
def spectra():
    return fft.rfft2(templates().transpose(0, 3, 1, 2), (_FFT, _FFT)).conj()


def mismatch(picture, background):
    """Squared error of each sprite at each corner (y, x), [35, 128, 128]: of its solid pixels, and half as much of
    what should be background; `picture` in 0..1."""
    planes = np.concatenate([-2 * picture.transpose(2, 0, 1), (picture ** 2).sum(2)[None],
                             0.5 * ((picture - background) ** 2).sum(2)[None]])
    product = np.einsum("cyx,kcyx->kyx", fft.rfft2(planes, (_FFT, _FFT)), spectra())
    return (fft.irfft2(product, (_FFT, _FFT))[:, :SIDE, :SIDE]
            + (templates()[..., :3] ** 2).sum((1, 2, 3))[:, None, None])


def fit_background(picture, guess):
    """The vertical gradient that most of a picture has, float [128, 128, 3]; `guess` is close to it."""
    rows = np.linspace(0, 1, SIDE, dtype=np.float32)[:, None].repeat(SIDE, 1)
    background = guess
    for tolerance in (0.2, 0.1, 0.06):
        plain = np.abs(picture - background).max(2) < tolerance
        if plain.sum() < 1500:
            break
        system = np.stack([1 - rows[plain], rows[plain]], 1)
        ends = np.linalg.solve(system.T @ system + np.eye(2), system.T @ picture[plain])
        background = (1 - rows[..., None]) * ends[0] + rows[..., None] * ends[1]
    return background.astype(np.float32)


def explain(picture, background):
    """The objects of a picture, uint8, whose plain background is about `background`, also uint8: those whose
    sprite fits (their label), fits half (EITHER), and what else is there (SPOILED)."""
    example = Example(picture)
    picture = picture.astype(np.float32) / 255
    background = fit_background(picture, background.astype(np.float32) / 255)
    solid = templates()[..., 3]
    soft = ndimage.gaussian_filter(picture, (DETAIL, DETAIL, 0), mode="nearest")
    # A sprite that hardly differs from the background would fit it; hence the floor.
    relative = mismatch(soft, background) / np.maximum(mismatch(background, background),
                                                       0.01 * solid.sum((1, 2))[:, None, None])
    for k, name in enumerate(world.NAMES):  # all of it must be in the picture
        free = SIDE - world.CELLS_OF[name] * world.CELL + 1
        relative[k, free:], relative[k, :, free:] = np.inf, np.inf
    taken = np.zeros((SIDE, SIDE), bool)
    while True:
        k, y, x = np.unravel_index(relative.argmin(), relative.shape)
        misfit = relative[k, y, x]
        if misfit > OTHER:
            break
        side = world.CELLS_OF[world.NAMES[k]] * world.CELL
        mask = np.zeros((SIDE, SIDE), bool)
        mask[y:y + side, x:x + side] = solid[k, :side, :side] > 0
        if (mask & taken).sum() < 0.1 * mask.sum():
            example.objects.append((int(k) + 1 if misfit <= SAME else EITHER, world.NAMES[k], mask))
            taken[max(0, y - 2):y + side + 2, max(0, x - 2):x + side + 2] = True
        relative[:, max(0, y - 24):y + 25, max(0, x - 24):x + 25] = np.inf
    differs = ndimage.gaussian_filter(np.abs(picture - background).max(2), 1.0) > 0.1
    parts, count = ndimage.label(ndimage.binary_opening(differs & ~taken, iterations=2))
    for part in range(1, count + 1):
        mask = parts == part
        if mask.sum() > 250:
            example.objects.append((SPOILED, None, mask))
    return example


# --- COCO ---------------------------------------------------------------------------------------


def run_lengths(mask):
    """COCO's uncompressed RLE: alternating lengths of zeros and ones, down the columns."""
    flat = mask.T.reshape(-1).astype(np.int8)
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff([0, *edges, flat.size]).tolist()
    return dict(size=list(mask.shape), counts=[0, *counts] if flat[0] else counts)


def annotation(label, visible, image_id, annotation_id):
    x0, y0, x1, y1 = box_of(visible)
    return dict(id=annotation_id, image_id=image_id, category_id=label, bbox=[x0, y0, x1 - x0, y1 - y0],
                area=int(visible.sum()), iscrowd=0, segmentation=run_lengths(visible))


def write(out, count, seed, crowded):
    rng = random.Random(seed)
    (out / "images").mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for i in range(count):
        scene = clean_scene(rng, crowded)
        example = clean_drawing(scene)
        name = f"{i:06d}.png"
        Image.fromarray(example.picture).save(out / "images" / name)
        images.append(dict(id=i, file_name=name, width=SIDE, height=SIDE,
                           caption=world.random_caption(rng, scene) if scene.arrangement != "crowded"
                           else None))
        for label, mask in example.things():
            annotations.append(annotation(label, mask, i, len(annotations)))
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
