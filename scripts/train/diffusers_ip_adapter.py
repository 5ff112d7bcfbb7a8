#!/usr/bin/env python3
"""The adapter of `prepose train ip-adapter` in diffusers: pictures by both programs, and the largest difference in 1/255.

    diffusers_ip_adapter.py --prepose target/release/prepose TRAINING --encoder image_encoder --picture FILE... [--checkpoint weights/toybox]

TRAINING is the folder of the training, `--encoder` the picture encoder that it had. diffusers' `load_ip_adapter` reads the file as its
authors'. Ends with 1 if any value of a picture differs by more than 1/255, or if the adapter changes nothing.
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
import transformers
from cases import toybox
from common import generator, silence
from PIL import Image

STEPS, SCALE = 10, 3.0
# Prompt, seed, what the adapter's attention is multiplied with.
REQUESTS = [("a dog to the left of a cat", 0, 1.0), ("a bus", 3, 0.5)]


def by_prepose(args, request, shown, path):
    prompt, seed, scale = request
    command = [str(args.prepose), "generate", prompt, "--checkpoint", str(args.checkpoint), "--device", "flex", "--dtype", "f32"]
    command += ["--seed", str(seed), "--steps", str(STEPS), "--scheduler", "ddim", "--guidance-scale", str(SCALE), "-o", str(path), "--json"]
    if shown:
        command += ["--ip-adapter", f"{args.training / 'ip_adapter.safetensors'},encoder={args.encoder}"]
        command += ["--ip-picture", f"{shown},scale={scale}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return np.asarray(Image.open(path).convert("RGB"), np.int16)


@torch.no_grad()
def by_diffusers(pipe, request, shown):
    prompt, seed, scale = request
    pipe.set_ip_adapter_scale(scale)
    picture = pipe(
        prompt,
        num_inference_steps=STEPS,
        guidance_scale=SCALE,
        generator=generator(seed),
        ip_adapter_image=Image.open(shown).convert("RGB"),
    ).images[0]
    return np.asarray(picture.convert("RGB"), np.int16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepose", type=Path, required=True)
    parser.add_argument("training", type=Path)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--picture", type=Path, nargs="+", required=True)
    parser.add_argument("--checkpoint", type=Path, default=toybox.TOYBOX)
    args = parser.parse_args()
    args.prepose = args.prepose.resolve()
    silence()
    base = toybox.load(args.checkpoint)
    encoder = transformers.CLIPVisionModelWithProjection.from_pretrained(args.encoder, dtype=torch.float32).eval()
    side = encoder.config.image_size
    processor = transformers.models.clip.image_processing_pil_clip.CLIPImageProcessorPil(
        size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    )
    parts = dict(vae=base.vae, text_encoder=base.text_encoder, tokenizer=base.tokenizer, scheduler=base.scheduler)
    pipe = diffusers.StableDiffusionPipeline(
        **parts,
        unet=base.unet,
        image_encoder=encoder,
        feature_extractor=processor,
        safety_checker=None,
        requires_safety_checker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    pipe.load_ip_adapter(str(args.training), subfolder="", weight_name="ip_adapter.safetensors", image_encoder_folder=None)
    pipe.unet.float()  # the adapter's layers come in the file's f16
    worst, least_change = 0, 255
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "picture.png"
        for request in REQUESTS:
            plain = by_prepose(args, request, None, path)
            for shown in args.picture:
                found, expected = by_prepose(args, request, shown, path), by_diffusers(pipe, request, shown)
                apart, change = int(np.abs(found - expected).max()), int(np.abs(found - plain).max())
                worst, least_change = max(worst, apart), min(least_change, change)
                print(f"{shown.name}: {apart}/255 at most between the programs, {change}/255 from the picture without it", flush=True)
    print(f"largest difference {worst}/255")
    return 0 if worst <= 1 and least_change > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
