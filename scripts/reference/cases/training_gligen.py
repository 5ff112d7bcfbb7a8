"""`fixtures/training-gligen/`: steps of AdamW on GLIGEN's layers of a tiny UNet, by PyTorch and diffusers in f64.

The UNet is that of `fixtures/gligen`, whose gates are open, in `fixtures/single-file/sd1`. Samples have timesteps, boxes and numbers of
objects of their own; one batch is told of none. Losses, the first step's gradients and the weights after the last step are stored; of
tensors with more than `LARGE` elements every `STRIDE`-th alone. How far f32 is from f64 in PyTorch is in `case.json`.
"""

import copy

import torch
from cases.gligen import PLACES, WIDTH, grounding
from common import FIXTURES, case_dir, generator, write_json, write_tensors
from diffusers import DDIMScheduler, UNet2DConditionModel

STEPS, BATCH, TOKENS, SIZE = 6, 2, 5, 8
ADAM = dict(lr=1e-3, eps=1e-5, weight_decay=0.0)
ROWS = [[3, 1], [2, 0], [0, 0], [30, 1], [1, 2], [4, 3]]
LARGE, STRIDE = 1024, 61


def given():
    rng = generator(83)
    shape = (STEPS, BATCH, 4, SIZE, SIZE)
    objects = [grounding(rows, 300 + 2 * step, torch.float32) for step, rows in enumerate(ROWS)]
    return {
        "clean": torch.randn(shape, generator=rng),
        "noise": torch.randn(shape, generator=rng),
        "context": torch.randn(STEPS, BATCH, TOKENS, WIDTH, generator=rng),
        "timesteps": torch.randint(0, 1000, (STEPS, BATCH), generator=rng),
    } | {key: torch.stack([one[key] for one in objects]) for key in objects[0]}


def steps(unet, inputs, dtype):
    unet = unet.to(dtype)
    scheduler = DDIMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012)
    trained = {name: p for name, p in unet.named_parameters() if ".fuser." in name or name.startswith("position_net.")}
    unet.requires_grad_(False)
    for parameter in trained.values():
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(trained.values(), foreach=False, **ADAM)
    found = {"losses": []}
    for step in range(STEPS):
        clean, noise, t = inputs["clean"][step].to(dtype), inputs["noise"][step].to(dtype), inputs["timesteps"][step]
        objects = {key: inputs[key][step].to(dtype) for key in ("boxes", "positive_embeddings", "masks")}
        context = inputs["context"][step].to(dtype)
        said = unet(scheduler.add_noise(clean, noise, t), t, context, cross_attention_kwargs={"gligen": objects}).sample
        loss = ((said - noise) ** 2).mean()
        loss.backward()
        if step == 0:
            found |= {f"gradient/{name}": p.grad.clone() for name, p in trained.items()}
        optimizer.step()
        optimizer.zero_grad()
        found["losses"].append(loss.detach())
    found["losses"] = torch.stack(found["losses"])
    return found | {f"after/{name}": p.detach() for name, p in trained.items()}


def some(value):
    return value.flatten()[::STRIDE] if value.numel() > LARGE else value


def make():
    path = case_dir("training-gligen")
    unet = UNet2DConditionModel.from_pretrained(FIXTURES / "gligen/unet").float()
    assert PLACES == 30
    inputs = given()
    exact, single = steps(copy.deepcopy(unet), inputs, torch.float64), steps(unet, inputs, torch.float32)

    def deviation(kind):
        pairs = [(single[name], exact[name]) for name in exact if name.startswith(kind)]
        return float(f"{max(((a - b).abs().max() / (b.abs().max() if kind == 'gradient' else 1)).item() for a, b in pairs):.1e}")

    found = {name: some(value).float() for name, value in exact.items()}
    write_tensors(path / "expected.safetensors", inputs | found)
    info = {"adam": ADAM, "large": LARGE, "stride": STRIDE, "deviation": {kind: deviation(kind) for kind in ("gradient", "after")}}
    write_json(path / "case.json", info)
