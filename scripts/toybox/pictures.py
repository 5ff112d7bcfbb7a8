"""The pictures of the docs: the toybox with and without guidance, with its attention maps, and what the checker says.

    python scripts/toybox/pictures.py --prepose target/release/prepose --docs docs [--only attributes]
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

PROMPT = "a photo of a dog to the left of a cat."
# Method → (options, seed): a seed whose picture is wrong without guidance.
METHODS = {
    "pos": (["--guide", "pos"], 9),
    "boxdiff": (["--guide", "boxdiff"], 9),
    "layout": (["--guide", "layout"], 1),
    "attend-and-excite": (["--guide", "attend-and-excite"], 6),
}
SEEDS = range(12)
# For CONFORM: a prompt with attributes, and seeds.
ATTRIBUTES, ATTRIBUTE_SEEDS = "a red dog and a blue cat", range(8)
# Prompts and seeds of pictures that pass, fail, lack an object, and cannot be decided.
CHECKED = [(PROMPT, 0), (PROMPT, 1), (PROMPT, 6), ("a photo of a stop sign above a teddy bear.", 0)]


def run(prepose, *options):
    subprocess.run([str(prepose), "-q", *map(str, options)], check=True, stdout=subprocess.DEVNULL)


def generate(prepose, *options):
    run(prepose, "generate", PROMPT, *options)


def stack(pictures):
    """One below the other."""
    width, height = max(p.width for p in pictures), sum(p.height for p in pictures)
    whole, top = Image.new("RGB", (width, height), "white"), 0
    for picture in pictures:
        whole.paste(picture, (0, top))
        top += picture.height
    return whole


def beside(pictures):
    whole = Image.new("RGB", (sum(p.width for p in pictures), pictures[0].height))
    for i, picture in enumerate(pictures):
        whole.paste(picture, (i * pictures[0].width, 0))
    return whole


def guided(args, folder):
    for method, (options, seed) in METHODS.items():
        sheets = []
        for name, extra in (("plain", []), (method, options)):
            generate(args.prepose, "--seed", seed, "--steps", 20, "--attention-maps", folder / name, "--attention-every", 2,
                     "-o", folder / f"{name}.png", *extra)
            sheets.append(Image.open(folder / name / f"{name}-steps.png").convert("RGB"))
        stack(sheets).quantize(128).save(args.docs / "guidance" / f"{method}.png", optimize=True)
    rows = []
    for name, extra in (("plain", []), ("pos", ["--guide", "pos"])):
        generate(args.prepose, "--seeds", f"{SEEDS[0]}-{SEEDS[-1]}", "--batch", len(SEEDS), "-o", folder / f"{name}s", *extra)
        stem = "a-photo-of-a-dog-to-the-left-of-a-cat"
        rows.append(beside([Image.open(folder / f"{name}s" / f"{stem}-{seed}.png").convert("RGB") for seed in SEEDS]))
    stack(rows).save(args.docs / "plain-and-guided.png", optimize=True)
    generate(args.prepose, "--guide", "pos", "--seed", 9, "-o", args.docs / "dog-cat.png", "--manifest", folder / "manifest.jsonl")


def attributes(args, folder):
    rows = []
    for name, extra in (("plain", []), ("conform", ["--guide", "conform"])):
        seeds = f"{ATTRIBUTE_SEEDS[0]}-{ATTRIBUTE_SEEDS[-1]}"
        run(args.prepose, "generate", ATTRIBUTES, "--seeds", seeds, "--batch", len(ATTRIBUTE_SEEDS), "-o", folder / name, *extra)
        rows.append(beside([Image.open(path).convert("RGB") for path in sorted((folder / name).glob("*.png"))]))
    stack(rows).quantize(128).save(args.docs / "guidance" / "conform.png", optimize=True)


def checked(args, folder):
    paths = []
    for i, (prompt, seed) in enumerate(CHECKED):
        paths.append(folder / f"{i}.png")
        run(args.prepose, "generate", prompt, "--seed", seed, "-o", paths[-1])
    run(args.prepose, "check", *paths, "--out", folder / "checked")
    overlays = [Image.open(folder / "checked" / "overlays" / path.name).convert("RGB") for path in paths]
    tallest = max(overlay.height for overlay in overlays)
    padded = [Image.new("RGB", (overlay.width + 6, tallest), "white") for overlay in overlays]
    for page, overlay in zip(padded, overlays):
        page.paste(overlay, (0, 0))
    beside(padded).quantize(256).save(args.docs / "checker.png", optimize=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepose", type=Path, required=True)
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--only", choices=["guided", "attributes", "checker"])
    args = parser.parse_args()
    for name, draw in (("guided", guided), ("attributes", attributes), ("checker", checked)):
        if args.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                draw(args, Path(folder))


if __name__ == "__main__":
    main()
