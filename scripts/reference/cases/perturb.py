"""`fixtures/perturb/`: what Pillow makes of pictures that are made brighter, darker, blurred, smaller and larger again, and of
bilinear resizing as detectors' pictures are prepared with it."""

import hashlib
from pathlib import Path

import numpy as np
import PIL
from common import case_dir, write_json
from PIL import Image, ImageEnhance, ImageFilter

DOCS = Path(__file__).resolve().parents[3] / "docs"
# The four of the benchmark's configuration, and others that take other branches: factors of 0, 1 and 3, a blur whose
# boxes have a radius of less than a pixel, one that is wider than a small picture, scales down to a few pixels and up.
PERTURBATIONS = [
    {"type": "brightness", "factor": 1.1},
    {"type": "brightness", "factor": 0.9},
    {"type": "gaussian_blur", "sigma": 1.0},
    {"type": "resize", "scale": 0.9},
    {"type": "brightness", "factor": 1.0},
    {"type": "brightness", "factor": 3.0},
    {"type": "brightness", "factor": 0.37},
    {"type": "gaussian_blur", "sigma": 0.3},
    {"type": "gaussian_blur", "sigma": 2.75},
    {"type": "gaussian_blur", "sigma": 40.0},
    {"type": "resize", "scale": 0.31},
    {"type": "resize", "scale": 1.0},
    {"type": "resize", "scale": 1.7},
]
# Sides of the "tall" picture (30 × 90) and of "odd" (61 × 37): Pillow 13 begins with the height where that is shrunk by
# more than twice as many pixels as the width; one of them is on the border.
BILINEAR = {"tall": [(30, 29), (40, 80), (10, 50), (10, 49), (64, 64)], "odd": [(32, 32), (80, 20), (64, 64)]}


def perturbed(picture, kind):
    if kind["type"] == "brightness":
        return ImageEnhance.Brightness(picture).enhance(kind["factor"])
    if kind["type"] == "gaussian_blur":
        return picture.filter(ImageFilter.GaussianBlur(kind["sigma"]))
    width, height = picture.size
    small = (int(width * kind["scale"]), int(height * kind["scale"]))
    return picture.resize(small, Image.Resampling.LANCZOS).resize(picture.size, Image.Resampling.LANCZOS)


def make():
    folder = case_dir("perturb")
    small = Image.open(DOCS / "guidance" / "pos.png").convert("RGB")
    left, top = small.size[0] // 2, small.size[1] // 3
    pictures = {
        "whole": Image.open(DOCS / "dog-cat.png").convert("RGB"),
        "odd": small.crop((left, top, left + 61, top + 37)),
        "tall": small.crop((left, top - 60, left + 30, top + 30)),
        # Every value next to every other.
        "noise": Image.fromarray(np.random.default_rng(0).integers(0, 256, (31, 43, 3), dtype=np.uint8)),
    }
    cases = []
    for name, picture in pictures.items():
        picture.save(folder / f"{name}.png", optimize=True)
        for number, kind in enumerate(PERTURBATIONS):
            result = perturbed(picture, kind)
            case = {"picture": name, "perturbation": kind, "sha256": hashlib.sha256(result.tobytes()).hexdigest()}
            if name == "odd":
                case["expected"] = f"{name}-{number:02}.png"
                result.save(folder / case["expected"], optimize=True)
            cases.append(case)
    bilinear = [
        {"picture": name, "size": size, "sha256": hashlib.sha256(resized.tobytes()).hexdigest()}
        for name, sizes in BILINEAR.items()
        for size in sizes
        for resized in [pictures[name].resize(size, Image.Resampling.BILINEAR)]
    ]
    write_json(folder / "case.json", {"pillow": PIL.__version__, "cases": cases, "bilinear": bilinear})
