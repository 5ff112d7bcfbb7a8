"""`fixtures/composed/`: Composable Diffusion (Liu et al. 2022) on the tiny SD1.x of `single-file`, by its formula."""

import diffusers
import torch
from common import FIXTURES, generator, write_case
from scheduler_configs import SD1

NEGATIVE, SCALE, STEPS, SEED = "blurry, bad", 5.0, 5, 5
SIZE = [8, 12]
# Name → parts, each with its weight and, perhaps, the box in which it acts.
CASES = {
    "three": [("a cat", 1.0, None), ("a red dog", 0.5, None), ("the bench", -0.3, None)],
    "regions": [("a cat", 1.0, [0.0, 0.0, 0.5, 1.0]), ("a red dog", 1.5, [0.5, 0.0, 1.0, 0.75]), ("a field", 0.25, None)],
}


def cells(box):
    """1 in the cells of the latents whose middle is in the box."""
    x0, y0, x1, y1 = box or [0.0, 0.0, 1.0, 1.0]
    rows, columns = SIZE
    y, x = (torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns
    inside = ((y >= y0) & (y < y1))[:, None] & ((x >= x0) & (x < x1))[None, :]
    return inside.float()


@torch.no_grad()
def denoise(pipe, parts):
    def encode(text):
        ids = pipe.tokenizer(text, padding="max_length", max_length=77, truncation=True, return_tensors="pt").input_ids
        return pipe.text_encoder(ids).last_hidden_state

    empty, texts = encode(NEGATIVE), [encode(text) for text, _, _ in parts]
    pipe.scheduler.set_timesteps(STEPS)
    latents = torch.randn([1, 4, *SIZE], generator=generator(SEED))
    for timestep in pipe.scheduler.timesteps:
        without = pipe.unet(latents, timestep, empty).sample
        combined = without.clone()
        for text, (_, weight, box) in zip(texts, parts):
            combined += weight * SCALE * cells(box) * (pipe.unet(latents, timestep, text).sample - without)
        latents = pipe.scheduler.step(combined, timestep, latents).prev_sample
    return latents


def make():
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(FIXTURES / "single-file/sd1", dtype=torch.float32, use_safetensors=False)
    pipe.scheduler = diffusers.DDIMScheduler.from_config(SD1)
    tensors = {f"{name}/latents": denoise(pipe, parts) for name, parts in CASES.items()}
    info = {
        "cases": {
            name: [{"text": text, "weight": weight, "box": box} for text, weight, box in parts] for name, parts in CASES.items()
        },
        "request": {
            "prompt": CASES["three"][0][0],
            "negative_prompt": NEGATIVE,
            "num_inference_steps": STEPS,
            "guidance_scale": SCALE,
            "height": SIZE[0] * 2,
            "width": SIZE[1] * 2,
        },
        "seed": SEED,
    }
    write_case("composed", tensors, info)
