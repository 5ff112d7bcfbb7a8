#!/usr/bin/env python3
"""What eight bits do to a network's pictures: the toybox by diffusers with bf16 or with values rounded to int8 in its UNet.

    int8.py [--checkpoint weights/toybox] [--pictures 64] [--steps 20] [--json FILE]

Weights of linear layers and convolutions are rounded to 127 levels on either side with a scale for each output; `weights` rounds
these alone, `int8` also rounds what goes in, with a scale for each token (linear layers) or picture (convolutions), as a product
of int8 would need it. Everything else stays f32. `but for ends` leaves the first and the last convolution alone, as is usual.

Prints the differences to f32's pictures from the same noise: the root of the mean square over all of a picture's 255 levels, averaged over
the pictures, and the share of pictures that differ by more than 16.
"""

import argparse
import json
from itertools import islice
from pathlib import Path

import reference_path  # noqa: F401  (first: sets the path)
import numpy as np
import torch
from cases import toybox
from common import silence

RELATIONS = ["to the left of", "to the right of", "above", "below"]
OBJECTS = ["dog", "cat", "car", "chair", "apple", "clock", "umbrella", "cup", "bus", "horse"]
FAR = 16


def prompts():
    pairs = [(a, b) for a in OBJECTS for b in OBJECTS if a != b]
    for number, (a, b) in enumerate(pairs):
        yield f"a {a} {RELATIONS[number % len(RELATIONS)]} a {b}"


def rounded(x, dims):
    """`x` on 255 levels, with a scale of its own for what is left when `dims` are reduced."""
    scale = x.abs().amax(dim=dims, keepdim=True).clamp_min(1e-12) / 127
    return (x / scale).round() * scale


def rounds_input(layer, given):
    (x,) = given
    return rounded(x, -1 if isinstance(layer, torch.nn.Linear) else tuple(range(1, x.dim())))


def round_layers(unet, inputs, ends):
    layers = [layer for layer in unet.modules() if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d))]
    for layer in layers:
        if not ends and layer in (unet.conv_in, unet.conv_out):
            continue
        layer.weight.data = rounded(layer.weight.data, tuple(range(1, layer.weight.dim())))
        if inputs:
            layer.register_forward_pre_hook(rounds_input)


def pictures(args, change):
    pipe = toybox.load(args.checkpoint)
    change(pipe)
    made = []
    for seed, prompt in enumerate(islice(prompts(), args.pictures)):
        noise = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(seed))
        given = {"latents": noise.to(pipe.unet.dtype), "num_inference_steps": args.steps, "guidance_scale": toybox.GUIDANCE}
        made.append(np.asarray(pipe(prompt, **given).images[0].convert("RGB"), np.float32))
    return np.stack(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=toybox.TOYBOX)
    parser.add_argument("--pictures", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    silence()
    variants = {
        "bf16": lambda pipe: pipe.to(torch.bfloat16),
        "weights": lambda pipe: round_layers(pipe.unet, False, True),
        "int8": lambda pipe: round_layers(pipe.unet, True, True),
        "int8, but for ends": lambda pipe: round_layers(pipe.unet, True, False),
    }
    expected = pictures(args, lambda pipe: None)
    rows = []
    for name, change in variants.items():
        apart = np.sqrt(np.square(pictures(args, change) - expected).mean(axis=(1, 2, 3)))
        rows.append({"variant": name, "levels": round(float(apart.mean()), 2), "far": round(float((apart > FAR).mean()), 3)})
        print(f"{name}: {rows[-1]['levels']} levels, {rows[-1]['far']:.1%} of {args.pictures} pictures by more than {FAR}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"pictures": args.pictures, "steps": args.steps, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
