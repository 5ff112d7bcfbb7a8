#!/usr/bin/env python3
"""A LoRA of `prepose train lora` in diffusers: pictures by both programs from both files, and the largest difference in 1/255.

    diffusers_lora.py --prepose target/release/prepose TRAINING [--checkpoint weights/toybox]

TRAINING is the folder of the training. Ends with 1 if any value differs by more than 1/255, or if the LoRA changes nothing.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

import numpy as np
from cases import toybox
from common import silence
from PIL import Image

FILES = ("lora.safetensors", "pytorch_lora_weights.safetensors")


def by_prepose(args, request, lora, path):
    command = [str(args.prepose), "generate", request["prompt"], "--checkpoint", str(args.checkpoint), "--device", "flex"]
    command += ["--dtype", "f32", "--seed", str(request["seed"]), "--steps", str(request["steps"])]
    command += ["--scheduler", request["scheduler"], "--guidance-scale", str(toybox.GUIDANCE), "-o", str(path), "--json"]
    command += ["--lora", str(lora)] if lora else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return np.asarray(Image.open(path).convert("RGB"), np.int16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepose", type=Path, required=True)
    parser.add_argument("training", type=Path)
    parser.add_argument("--checkpoint", type=Path, default=toybox.TOYBOX)
    args = parser.parse_args()
    args.prepose = args.prepose.resolve()
    silence()
    worst, least_change = 0, 255
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "picture.png"
        for request in toybox.REQUESTS[:2]:
            plain = by_prepose(args, request, None, path)
            for name in FILES:
                pipe = toybox.load(args.checkpoint)
                pipe.load_lora_weights(args.training, weight_name=name)
                _, expected = toybox.generate(pipe, request, args.checkpoint)
                expected = np.asarray(expected.convert("RGB"), np.int16)
                found = by_prepose(args, request, args.training / name, path)
                apart, change = int(np.abs(found - expected).max()), int(np.abs(found - plain).max())
                worst, least_change = max(worst, apart), min(least_change, change)
                print(f"{name}: {apart}/255 at most between the programs, {change}/255 from the picture without it", flush=True)
    print(f"largest difference {worst}/255")
    return 0 if worst <= 1 and least_change > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
