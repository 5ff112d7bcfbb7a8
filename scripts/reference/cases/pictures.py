"""`fixtures/pictures/`: one picture in the forms that files come in, and what Pillow's `convert("RGB")` makes of each where that is not
the picture itself."""

from pathlib import Path

import numpy as np
from common import case_dir
from PIL import Image

DOCS = Path(__file__).resolve().parents[3] / "docs"


def make():
    folder = case_dir("pictures")
    picture = Image.open(DOCS / "dog-cat.png").convert("RGB")
    alpha = Image.linear_gradient("L").resize(picture.size)
    forms = {
        "rgb.png": picture,
        "palette.png": picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=64),
        "grey.png": picture.convert("L"),
        "transparent.png": Image.merge("RGBA", (*picture.split(), alpha)),
        "cmyk.jpg": picture.convert("CMYK"),
        "grey.jpg": picture.convert("L"),
        "lossless.webp": picture,
    }
    expected = {}
    for name, form in forms.items():
        options = dict(lossless=True) if name.endswith("webp") else dict(quality=95) if name.endswith("jpg") else {}
        form.save(folder / name, **options)
        expected[name] = np.asarray(Image.open(folder / name).convert("RGB"))
    for name, pixels in expected.items():
        if np.array_equal(pixels, expected["rgb.png"]):
            continue  # nothing was lost
        Image.fromarray(pixels).save(folder / f"{name}.expected.png", optimize=True)
