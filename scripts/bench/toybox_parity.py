#!/usr/bin/env python3
"""Toybox pictures by diffusers and by prepose at the same seeds: the largest difference, in 1/255.

    toybox_parity.py --prepose target/release/prepose [--checkpoint weights/toybox] [--seeds 0-3] [--out DIR]

`python scripts/reference/make.py toybox` writes the pictures that prepose's own tests compare with.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import reference_path  # noqa: F401  (first: sets the path)
import numpy as np
from cases import toybox
from common import silence
from PIL import Image


def by_prepose(binary, checkpoint, request, path):
    command = [str(binary), "generate", request["prompt"], "--checkpoint", str(checkpoint), "--device", "flex"]
    command += ["--dtype", "f32", "--seed", str(request["seed"]), "--steps", str(request["steps"])]
    command += ["--scheduler", request["scheduler"], "--guidance-scale", str(toybox.GUIDANCE), "-o", str(path), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Image.open(path).convert("RGB")


def difference(a, b):
    if a.size != b.size:
        raise SystemExit(f"sizes differ: diffusers {a.size}, prepose {b.size}")
    apart = np.abs(np.asarray(a, np.int16) - np.asarray(b, np.int16))
    return int(apart.max()), float((apart > 0).mean())


def seeds(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepose", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, default=toybox.TOYBOX)
    parser.add_argument("--seeds", type=seeds, help="instead of each request's own seed")
    parser.add_argument("--out", type=Path, help="keep the pictures here")
    args = parser.parse_args()

    silence()
    pipe = toybox.load(args.checkpoint)
    scratch = tempfile.TemporaryDirectory()
    out = args.out or Path(scratch.name)
    out.mkdir(parents=True, exist_ok=True)
    worst = 0
    for i, base in enumerate(toybox.REQUESTS):
        for seed in args.seeds or [base["seed"]]:
            request = base | {"seed": seed}
            _, expected = toybox.generate(pipe, request, args.checkpoint)
            expected.save(out / f"{i}-{seed}-diffusers.png")
            found = by_prepose(args.prepose, args.checkpoint, request, out / f"{i}-{seed}-prepose.png")
            largest, share = difference(expected, found)
            worst = max(worst, largest)
            print(f"{largest}/255 at most, {share:.2%} of values differ: {request}", flush=True)
    print(f"largest difference {worst}/255")
    return 0 if worst <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
