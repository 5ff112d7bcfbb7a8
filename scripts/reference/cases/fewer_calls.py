"""`fixtures/fewer-calls/`: diffusers' own pipeline with fewer or cheaper calls of the tiny SD1.x of `single-file`."""

import diffusers
import torch
from common import FIXTURES, generator, write_case
from scheduler_configs import SD1

NEGATIVE, SCALE, SEED = "blurry, bad", 5.0, 5
SIZE = [8, 12]
STEPS = 6
# Name → scheduler, steps, eta, and the first and last step with guidance.
CASES = {
    "tcd": ("TCDScheduler", 4, 0.3, None),
    "tcd-eta": ("TCDScheduler", 4, 1.0, None),
    "interval": ("DDIMScheduler", STEPS, None, [1, 3]),
    "interval-multistep": ("DPMSolverMultistepScheduler", STEPS, None, [2, 5]),
}


def guide_within(first, last):
    """Switches classifier-free guidance on and off between steps, as diffusers' page on callbacks does it."""

    def callback(pipe, step, timestep, values):
        guided = first <= step + 1 <= last
        pipe._guidance_scale = SCALE if guided else 1.0
        negative, positive = callback.embeds
        values["prompt_embeds"] = torch.cat([negative, positive]) if guided else positive
        return values

    return callback


@torch.no_grad()
def latents(pipe, name):
    scheduler, steps, eta, interval = CASES[name]
    pipe.scheduler = getattr(diffusers, scheduler).from_config(SD1)
    arguments = {} if eta is None else {"eta": eta}
    scale = SCALE
    if interval:
        callback = guide_within(*interval)
        positive, negative = pipe.encode_prompt("a cat", "cpu", 1, True, NEGATIVE)
        callback.embeds = (negative, positive)
        arguments |= {"callback_on_step_end": callback, "callback_on_step_end_tensor_inputs": ["prompt_embeds"]}
        # The callback comes after a step, so the first one is told beforehand.
        scale = SCALE if interval[0] == 0 else 1.0
    return pipe(
        "a cat",
        negative_prompt=NEGATIVE,
        guidance_scale=scale,
        num_inference_steps=steps,
        height=SIZE[0] * 2,
        width=SIZE[1] * 2,
        generator=generator(SEED),
        output_type="latent",
        **arguments,
    ).images


def make():
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(FIXTURES / "single-file/sd1", dtype=torch.float32, use_safetensors=False)
    pipe.set_progress_bar_config(disable=True)
    tensors = {f"{name}/latents": latents(pipe, name).contiguous() for name in CASES}
    names = {"TCDScheduler": "tcd", "DDIMScheduler": "ddim", "DPMSolverMultistepScheduler": "dpmpp_2m"}
    cases = {
        name: {"scheduler": names[scheduler], "steps": steps, "eta": eta, "guidance_steps": interval}
        for name, (scheduler, steps, eta, interval) in CASES.items()
    }
    info = {
        "cases": cases,
        "request": {
            "prompt": "a cat",
            "negative_prompt": NEGATIVE,
            "num_inference_steps": STEPS,
            "guidance_scale": SCALE,
            "height": SIZE[0] * 2,
            "width": SIZE[1] * 2,
        },
        "seed": SEED,
    }
    write_case("fewer-calls", tensors, info)
