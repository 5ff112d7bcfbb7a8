"""`fixtures/toybox/`: pictures that diffusers makes with the checkpoint of weights/toybox."""

from pathlib import Path

import diffusers
import torch
from common import FIXTURES, case_dir, generator, write_json, write_tensors
from networks import read_json
from scheduler_configs import SCHEDULERS

TOYBOX = FIXTURES.parent / "weights/toybox"
REQUESTS = [
    {"prompt": "a dog to the left of a cat", "seed": 0, "scheduler": "ddim", "steps": 50},
    {"prompt": "a pizza above a book", "seed": 1, "scheduler": "ddim", "steps": 20},
    {"prompt": "a dog and a cat", "seed": 2, "scheduler": "pndm", "steps": 20},
    {"prompt": "a train to the right of an elephant", "seed": 3, "scheduler": "euler", "steps": 20},
    {"prompt": "a bird below a chair", "seed": 2**32 - 1, "scheduler": "euler_a", "steps": 20},
    {"prompt": "a photo of two animals.", "seed": 42, "scheduler": "dpmpp_2m_karras", "steps": 15},
    {"prompt": "a cat", "seed": 7, "scheduler": "unipc", "steps": 15},
]
GUIDANCE = 4.0


def load(folder=TOYBOX):
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(folder, dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    return pipe


@torch.no_grad()
def generate(pipe, request, folder=TOYBOX):
    """Latents, and the picture as a PIL image. The checkpoint's own scheduler file configures every scheduler."""
    kind, arguments = SCHEDULERS[request["scheduler"]]
    config = read_json(Path(folder) / "scheduler/scheduler_config.json")
    pipe.scheduler = getattr(diffusers, kind).from_config(config, **arguments)
    latents = pipe(
        request["prompt"],
        num_inference_steps=request["steps"],
        guidance_scale=request.get("guidance_scale", GUIDANCE),
        generator=generator(request["seed"]),
        output_type="latent",
    ).images
    decoded = pipe.vae.decode(latents / pipe.vae.config.scaling_factor).sample
    return latents, pipe.image_processor.postprocess(decoded, output_type="pil")[0]


def make():
    if not TOYBOX.exists():
        print("  weights/toybox is not there")
        return
    path = case_dir("toybox")
    pipe = load()
    tensors, requests = {}, []
    for i, request in enumerate(REQUESTS):
        latents, picture = generate(pipe, request)
        picture.save(path / f"{i}.png", optimize=True)
        tensors[f"{i}/latents"] = latents
        requests.append(request | {"guidance_scale": GUIDANCE, "size": list(picture.size), "file": f"{i}.png"})
    write_tensors(path / "expected.safetensors", tensors)
    write_json(path / "case.json", {"requests": requests})
