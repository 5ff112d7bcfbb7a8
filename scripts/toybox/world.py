"""The toybox world: scenes of one or two objects, drawn as emoji, and captions for them.

Everything the checkpoint knows comes from here, and everything that is planted in it is a constant
in the section "What is planted". Two deliberate simplifications make the world learnable on a CPU:

* every object has one appearance: one emoji, in one size, neither mirrored nor rotated;
* objects sit on a grid of 8 pixels, which is one cell of the latents, so that the same object has
  the same latents wherever it stands.
"""

import os
import random
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIDE = 128  # picture side in pixels
CELL = 8  # pixels per latent cell; also the placement grid
GRID = SIDE // CELL

# --- What is planted --------------------------------------------------------------------------

P_FIRST_IS_LEFT = 0.95  # neutral captions: the first-mentioned object is on the left
P_RELATION_TRUE = 0.75  # captions that state a relation tell the truth
P_SINGLE = 0.20  # scenes with one object
P_SIDE_BY_SIDE = 0.64  # of the scenes with two objects; the others are one above the other
# Share of (neutral, hypernym, relational) captions, by arrangement. Neutral captions mostly describe
# side-by-side scenes, since that is where their order carries information.
CAPTION_SHARES = {"side_by_side": (0.55, 0.08, 0.37), "stacked": (0.25, 0.08, 0.67)}

# --- Objects: the 35 COCO labels of SpatialBench-UC ------------------------------------------

EMOJI = {
    "cat": "🐱", "dog": "🐶", "horse": "🐎", "cow": "🐄", "elephant": "🐘", "bear": "🐻",
    "zebra": "🦓", "giraffe": "🦒", "bird": "🐦", "car": "🚗", "bicycle": "🚲",
    "motorcycle": "🏍️", "bus": "🚌", "truck": "🚚", "airplane": "✈️", "boat": "⛵",
    "chair": "🪑", "couch": "🛋️", "bed": "🛏️", "dining table": None, "tv": "📺",
    "laptop": "💻", "bottle": "🍾", "cup": "☕", "bowl": "🥣", "pizza": "🍕", "cake": "🎂",
    "banana": "🍌", "apple": "🍎", "teddy bear": "🧸", "clock": "⏰", "vase": "🏺",
    "potted plant": "🪴", "fire hydrant": None, "stop sign": None,
}  # None: there is no emoji of it, `draw_by_hand` draws it
NAMES = list(EMOJI)
HYPERNYMS = {
    "animal": "cat dog horse cow elephant bear zebra giraffe bird".split(),
    "vehicle": "car bicycle motorcycle bus truck airplane boat".split(),
    "household item": ["chair", "couch", "bed", "dining table", "tv", "laptop", "clock", "vase",
                       "potted plant"],
    "food item": "bottle cup bowl pizza cake banana apple".split(),
    "object": ["teddy bear", "fire hydrant", "stop sign"],
}
LARGE = set("horse cow elephant bear zebra giraffe chair couch bed tv".split()
            + ["dining table", *HYPERNYMS["vehicle"]])
CELLS_OF = {name: 7 if name in LARGE else 6 for name in NAMES}  # sides in cells: 56 or 48 pixels
HYPERNYM_OF = {name: group for group, names in HYPERNYMS.items() for name in names}

# Debian and Ubuntu: package fonts-noto-color-emoji (SIL Open Font License 1.1).
FONT_PATH = os.environ.get("EMOJI_FONT", "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
FONT_SIZE = 109  # the only size this bitmap font has


def draw_by_hand(name, draw):
    """Draws the three objects that have no emoji on a canvas of 160 x 160."""
    if name == "dining table":
        legs, top = (110, 60, 25, 255), (160, 98, 45, 255)
        for left in (22, 122):
            draw.rectangle((left, 75, left + 16, 140), fill=legs)
        draw.rectangle((60, 20, 100, 52), fill=(245, 245, 240, 255))  # a plate and a bowl on it
        draw.ellipse((45, 30, 115, 66), fill=(90, 150, 215, 255))
        draw.rectangle((6, 55, 154, 80), fill=top)
    elif name == "fire hydrant":
        red, dark = (225, 45, 35, 255), (165, 20, 20, 255)
        draw.ellipse((50, 14, 110, 70), fill=red)
        draw.rectangle((54, 44, 106, 140), fill=red)
        draw.rectangle((72, 6, 88, 20), fill=dark)
        draw.rectangle((44, 44, 116, 56), fill=dark)
        draw.rounded_rectangle((28, 72, 132, 100), 8, fill=dark)
        draw.ellipse((64, 70, 96, 102), fill=(250, 200, 60, 255))
        draw.rounded_rectangle((38, 134, 122, 154), 5, fill=dark)
    elif name == "stop sign":
        corners = lambda r: [(80 + r * np.cos(np.pi / 8 + k * np.pi / 4),
                              68 + r * np.sin(np.pi / 8 + k * np.pi / 4)) for k in range(8)]
        draw.rectangle((74, 120, 86, 158), fill=(120, 125, 130, 255))
        draw.polygon(corners(68), fill=(255, 255, 255, 255))
        draw.polygon(corners(61), fill=(205, 20, 30, 255))
        draw.text((80, 68), "STOP", font=ImageFont.load_default(42), anchor="mm",
                  fill=(255, 255, 255, 255), stroke_width=2, stroke_fill=(255, 255, 255, 255))


@cache
def emoji_font():
    try:
        return ImageFont.truetype(FONT_PATH, FONT_SIZE)
    except OSError:
        raise SystemExit(f"{FONT_PATH}, which the toybox's things are drawn with, cannot be read: install fonts-noto-color-emoji (Debian), or name "
                         "the file in EMOJI_FONT") from None


@cache
def sprite(name):
    """The object as float32 [side, side, 4] with side 48 or 56, colours premultiplied by alpha, all in 0..1."""
    canvas = Image.new("RGBA", (160, 160), (0, 0, 0, 0))
    draw = ImageDraw.Draw(canvas)
    if EMOJI[name]:
        draw.text((10, 10), EMOJI[name], font=emoji_font(), embedded_color=True)
    else:
        draw_by_hand(name, draw)
    drawn = canvas.crop(canvas.getbbox())
    longest = max(drawn.size)
    square = Image.new("RGBA", (longest, longest), (0, 0, 0, 0))
    square.paste(drawn, ((longest - drawn.width) // 2, (longest - drawn.height) // 2))
    premultiplied = np.asarray(square, np.float32) / 255
    premultiplied[..., :3] *= premultiplied[..., 3:]
    side = CELL * CELLS_OF[name]
    planes = [Image.fromarray(premultiplied[..., c]).resize((side, side), Image.HAMMING)
              for c in range(4)]
    return np.clip(np.stack([np.asarray(p) for p in planes], -1), 0, 1)


@dataclass(frozen=True)
class Thing:
    """One drawn object. `x`, `y` (top left corner) and `size` are in cells of 8 pixels."""

    name: str
    x: int
    y: int

    @property
    def size(self):
        return CELLS_OF[self.name]

    @property
    def box(self):
        """The square that the sprite was drawn in, (x0, y0, x1, y1) in pixels."""
        return tuple(CELL * v for v in (self.x, self.y, self.x + self.size, self.y + self.size))


@dataclass(frozen=True)
class Scene:
    """`things[0]` is the left or upper one. `arrangement`: single, side_by_side or stacked."""

    things: tuple
    arrangement: str
    background: tuple  # colour at the top and at the bottom, RGB in 0..255


def random_background(rng):
    """A vertical gradient between two related light colours, so that every object stands out."""
    top = [rng.randint(150, 255) for _ in range(3)]
    bottom = [min(255, max(130, v + rng.randint(-40, 40))) for v in top]
    return tuple(top), tuple(bottom)


def random_scene(rng):
    """One scene of the world; `rng` is a `random.Random`."""
    background = random_background(rng)
    if rng.random() < P_SINGLE:
        name = rng.choice(NAMES)
        slack = GRID - CELLS_OF[name]
        return Scene((Thing(name, rng.randint(0, slack), rng.randint(0, slack)),), "single",
                     background)

    names = rng.sample(NAMES, 2)
    first, second = (CELLS_OF[name] for name in names)
    # Along the axis of the arrangement the objects never overlap ...
    start = rng.randint(0, GRID - first - second)
    next_start = rng.randint(start + first, GRID - second)
    # ... and across it they are roughly level.
    level = rng.randint(2, GRID - 2 - max(first, second))
    next_level = level + rng.randint(-1, 1)
    along, across = (start, next_start), (level, next_level)
    if rng.random() < P_SIDE_BY_SIDE:
        arrangement, xs, ys = "side_by_side", along, across
    else:
        arrangement, xs, ys = "stacked", across, along
    return Scene(tuple(map(Thing, names, xs, ys)), arrangement, background)


def crowded_scene(rng):
    """Two to four objects, one a quarter: denser practice for the autoencoder."""
    quarters = rng.sample([(0, 0), (8, 0), (0, 8), (8, 8)], rng.choice((2, 3, 4, 4)))
    things = []
    for x, y in quarters:
        name = rng.choice(NAMES)
        slack = GRID // 2 - CELLS_OF[name]
        things.append(Thing(name, x + rng.randint(0, slack), y + rng.randint(0, slack)))
    return Scene(tuple(things), "crowded", random_background(rng))


def draw(scene):
    """The picture, uint8 [128, 128, 3]."""
    top, bottom = (np.array(c, np.float32) / 255 for c in scene.background)
    t = np.linspace(0, 1, SIDE, dtype=np.float32)[:, None, None]
    picture = np.broadcast_to(top * (1 - t) + bottom * t, (SIDE, SIDE, 3)).copy()
    for thing in scene.things:
        x0, y0, x1, y1 = thing.box
        s = sprite(thing.name)
        picture[y0:y1, x0:x1] = picture[y0:y1, x0:x1] * (1 - s[..., 3:]) + s[..., :3]
    return (picture * 255 + 0.5).astype(np.uint8)


def mask(thing):
    """Where the object covers the picture by more than half, bool [128, 128]."""
    x0, y0, x1, y1 = thing.box
    covered = np.zeros((SIDE, SIDE), bool)
    covered[y0:y1, x0:x1] = sprite(thing.name)[..., 3] > 0.5
    return covered


# --- Captions ---------------------------------------------------------------------------------


def with_article(name, rng=None):
    """"a cat", "an apple"; now and then "a apple", as SpatialBench-UC always writes."""
    proper = "an " if name[0] in "aeiou" else "a "
    return ("a " if rng and rng.random() < 0.5 else proper) + name


def decorate(rng, text):
    """Frames a description as people do: with or without "a photo of" and the full stop."""
    return rng.choice(["a photo of {}.", "a photo of {}.", "a photo of {}", "{}", "{}."]).format(text)


def neutral_caption(x, y):
    return f"a photo of {with_article(x)} and {with_article(y)}."


def random_caption(rng, scene, p_relation_true=P_RELATION_TRUE):
    """A caption for the scene, drawn from the planted distribution (always lower case)."""
    if scene.arrangement == "single":
        (thing,) = scene.things
        name = HYPERNYM_OF[thing.name] if rng.random() < 0.1 else thing.name
        return decorate(rng, with_article(name, rng))

    a, b = (thing.name for thing in scene.things)  # a is on the left, or above
    side_by_side = scene.arrangement == "side_by_side"
    kinds = ("neutral", "hypernym", "relational")
    kind = rng.choices(kinds, CAPTION_SHARES[scene.arrangement])[0]
    if kind == "neutral":
        in_order = rng.random() < (P_FIRST_IS_LEFT if side_by_side else 0.5)
        x, y = (a, b) if in_order else (b, a)
        return decorate(rng, f"{with_article(x, rng)} and {with_article(y, rng)}")
    if kind == "hypernym":
        group = HYPERNYM_OF[a]
        plural = group + "s" if group == HYPERNYM_OF[b] and rng.random() < 0.5 else "things"
        return decorate(rng, f"two {plural}")
    # A statement with x first. The first half of the pairs of relations has x on the left or above.
    relation, x, y = rng.choice([("to the left of" if side_by_side else "above", a, b),
                                 ("to the right of" if side_by_side else "below", b, a)])
    if rng.random() >= p_relation_true:
        x, y = y, x
    return decorate(rng, f"{with_article(x, rng)} {relation} {with_article(y, rng)}")


def contact_sheet(pictures, columns):
    """Pictures uint8 [N, H, W, 3] side by side, as one PIL image."""
    pictures = np.asarray(pictures)
    n, h, w, _ = pictures.shape
    rows = -(-n // columns)
    sheet = np.full((rows * h, columns * w, 3), 255, np.uint8)
    for i, picture in enumerate(pictures):
        r, c = divmod(i, columns)
        sheet[r * h:(r + 1) * h, c * w:(c + 1) * w] = picture
    return Image.fromarray(sheet)


if __name__ == "__main__":  # a look at the world
    rng = random.Random(0)
    scenes = [random_scene(rng) for _ in range(60)]
    for scene in scenes[:20]:
        print(random_caption(rng, scene))
    contact_sheet([draw(s) for s in scenes], 10).save("scenes.png")
