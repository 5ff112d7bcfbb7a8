"""`fixtures/masks/`: the largest part of a mask as the released script of PSE in depth keeps it.

The script takes the outermost outlines of OpenCV, of those the one that encloses most, and fills it.
"""

import json

import cv2
import numpy as np
from common import case_dir

README = """# The largest part of masks

`largest_parts.json` has random masks and what is left when the largest of OpenCV's outermost outlines is filled. Masks whose
two largest outlines enclose the same are not among them.

Made by `python scripts/reference/make.py masks`.
"""


def largest_part(mask):
    """None where two outlines are the largest."""
    outlines, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    areas = sorted((cv2.contourArea(outline) for outline in outlines), reverse=True)
    if len(areas) > 1 and areas[0] == areas[1]:
        return None
    filled = np.zeros_like(mask)
    cv2.fillPoly(filled, [max(outlines, key=cv2.contourArea)], color=1)
    return filled


def masks(rng):
    """Spots, blurred so that some hang together and some have holes, on pictures of several sizes."""
    for number in range(60):
        height, width = rng.integers(3, 22, 2)
        noise = rng.random((height, width)).astype(np.float32)
        blurred = cv2.GaussianBlur(noise, (0, 0), 0.4 + 0.8 * (number % 3))
        yield (blurred > np.quantile(blurred, [0.35, 0.5, 0.7][number % 3])).astype(np.uint8)
    ring = np.zeros((12, 14), np.uint8)
    cv2.rectangle(ring, (1, 1), (10, 9), 1)
    ring[5, 5] = ring[0, 13] = 1
    yield ring
    yield np.ones((4, 5), np.uint8)
    yield np.eye(6, dtype=np.uint8)


def rows(mask):
    return ["".join("#" if on else "." for on in row) for row in mask]


def make():
    folder = case_dir("masks")
    pairs = [(mask, largest_part(mask)) for mask in masks(np.random.default_rng(0)) if mask.any()]
    cases = [{"mask": rows(mask), "largest": rows(part)} for mask, part in pairs if part is not None]
    text = json.dumps(cases, separators=(",", ":")).replace("},{", "},\n{")
    (folder / "largest_parts.json").write_text(text + "\n", encoding="utf-8")
    (folder / "README.md").write_text(README, encoding="utf-8")
