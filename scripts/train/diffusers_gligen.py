#!/usr/bin/env python3
"""GLIGEN's layers of `prepose train gligen` in diffusers: pictures by both programs, and the largest difference in 1/255.

    diffusers_gligen.py --prepose target/release/prepose TRAINING [--checkpoint weights/toybox]

TRAINING is the folder of the training. Its file in diffusers' names is loaded into diffusers' gated UNet, which must lack nothing and have
nothing left over; the other has to hold the same tensors in the names of the published file. Ends with 1 if not, if any value of a picture
differs by more than 1/255, or if the layers change nothing.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

import diffusers
import numpy as np
import torch
from cases import toybox
from common import generator, silence
from ldm import unet_to_ldm
from PIL import Image
from safetensors.torch import load_file

STEPS, SCALE = 10, 3.0
# Prompt, seed, share of the steps, boxes.
REQUESTS = [
    ("a dog to the left of a cat", 0, 1.0, {"a dog": [0.05, 0.25, 0.45, 0.65], "a cat": [0.55, 0.25, 0.95, 0.7]}),
    ("a bus and a bird", 3, 0.3, {"a bird": [0.1, 0.5, 0.5, 0.95]}),
]


def by_prepose(args, request, file, path):
    prompt, seed, share, boxes = request
    command = [str(args.prepose), "generate", prompt, "--checkpoint", str(args.checkpoint), "--device", "flex", "--dtype", "f32"]
    command += ["--seed", str(seed), "--steps", str(STEPS), "--scheduler", "ddim", "--guidance-scale", str(SCALE), "-o", str(path), "--json"]
    if file:
        command += ["--gligen", str(file), f"--ground={share}"]
        for phrase, box in boxes.items():
            command += ["--box", f"{phrase}: {','.join(map(str, box))}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return np.asarray(Image.open(path).convert("RGB"), np.int16)


def gated(plain, layers):
    """diffusers' UNet with the layers, and what it lacks."""
    unet = diffusers.UNet2DConditionModel.from_config(dict(plain.config) | {"attention_type": "gated"})
    unet.load_state_dict(plain.state_dict(), strict=False)
    found = unet.load_state_dict({key: value.float() for key, value in layers.items()}, strict=False)
    missing = [key for key in found.missing_keys if key not in plain.state_dict()]
    return unet.eval(), missing + found.unexpected_keys


@torch.no_grad()
def by_diffusers(pipe, request):
    prompt, seed, share, boxes = request
    picture = pipe(
        prompt,
        num_inference_steps=STEPS,
        guidance_scale=SCALE,
        generator=generator(seed),
        gligen_phrases=list(boxes),
        gligen_boxes=list(boxes.values()),
        gligen_scheduled_sampling_beta=share,
    ).images[0]
    pipe.enable_fuser(True)  # which the pipeline leaves off
    return np.asarray(picture.convert("RGB"), np.int16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepose", type=Path, required=True)
    parser.add_argument("training", type=Path)
    parser.add_argument("--checkpoint", type=Path, default=toybox.TOYBOX)
    args = parser.parse_args()
    args.prepose = args.prepose.resolve()
    silence()
    base = toybox.load(args.checkpoint)
    layers = load_file(args.training / "gligen_diffusers.safetensors")
    original = load_file(args.training / "gligen.safetensors")
    blocks = {key: value for key, value in layers.items() if not key.startswith("position_net.")}
    names = {diffusers_key: key.removeprefix("model.diffusion_model.") for key, diffusers_key in unet_to_ldm(blocks, base.unet.config).items()}
    same = len(original) == len(layers) and all(torch.equal(original[names.get(key, key)], value) for key, value in layers.items())
    unet, amiss = gated(base.unet, layers)
    print(f"{len(layers)} tensors; the same in both files: {same}; missing or left over in diffusers: {amiss or 'none'}")
    parts = dict(vae=base.vae, text_encoder=base.text_encoder, tokenizer=base.tokenizer, scheduler=base.scheduler)
    pipe = diffusers.StableDiffusionGLIGENPipeline(
        **parts, unet=unet, safety_checker=None, feature_extractor=None, requires_safety_checker=False
    )
    pipe.set_progress_bar_config(disable=True)
    worst, least_change = 0, 255
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "picture.png"
        for request in REQUESTS:
            expected = by_diffusers(pipe, request)
            plain = by_prepose(args, request, None, path)
            for name in ("gligen.safetensors", "gligen_diffusers.safetensors"):
                found = by_prepose(args, request, args.training / name, path)
                apart, change = int(np.abs(found - expected).max()), int(np.abs(found - plain).max())
                worst, least_change = max(worst, apart), min(least_change, change)
                print(f"{name}: {apart}/255 at most between the programs, {change}/255 from the picture without it", flush=True)
    print(f"largest difference {worst}/255")
    return 0 if worst <= 1 and least_change > 1 and same and not amiss else 1


if __name__ == "__main__":
    sys.exit(main())
