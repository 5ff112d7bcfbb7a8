"""`fixtures/training/`: what optimisers, schedules, averages and losses come to in PyTorch, transformers, bitsandbytes and diffusers.

bitsandbytes' step on a GPU is written out here in NumPy's f32 with the nearest code, as its kernel `kOptimizerStatic8bit2StateBlockwise`
has it: its step on a CPU rounds moments by a coarser table. The 256 values that codes stand for are the package's own.
"""

import bitsandbytes.functional as bnb
import numpy as np
import torch
from common import case_dir, generator, write_json, write_tensors
from diffusers import DDIMScheduler
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel, compute_snr
from transformers.optimization import Adafactor

STEPS = 10


def gradients(shape, seed, steps=STEPS):
    """Of several sizes, as gradients of one network are."""
    rng = generator(seed)
    scale = 10 ** (2 * torch.rand(shape, generator=rng) - 2)
    return torch.randn(steps, *shape, generator=rng) * scale


def by_optimizer(make, shape, seed, steps=STEPS):
    start = torch.randn(shape, generator=generator(seed + 1))
    parameter = torch.nn.Parameter(start.clone())
    optimizer = make([parameter])
    given, moved = gradients(shape, seed, steps), []
    for g in given:
        parameter.grad = g.clone()
        optimizer.step()
        moved.append(parameter.detach().clone())
    return {"start": start, "gradients": given, "weights": torch.stack(moved)}, optimizer.state[parameter]


def adamw(tensors, info):
    for name, settings in {
        "adamw/usual": dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2),
        "adamw/far": dict(lr=1e-2, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    }.items():
        found, state = by_optimizer(lambda p, settings=settings: torch.optim.AdamW(p, foreach=False, **settings), (7, 5), 11)
        found |= {"mean": state["exp_avg"], "square": state["exp_avg_sq"]}
        tensors |= {f"{name}/{key}": value for key, value in found.items()}
        info[name] = settings


def adafactor(tensors, info):
    settings = dict(lr=1e-2, scale_parameter=False, relative_step=False, warmup_init=False, weight_decay=0.1)
    for name, shape in {"matrix": (7, 5), "convolution": (4, 3, 3, 2), "vector": (6,)}.items():
        found, _ = by_optimizer(lambda p: Adafactor(p, **settings), shape, 21)
        tensors |= {f"adafactor/{name}/{key}": value for key, value in found.items()}
    info["adafactor"] = settings


class EightBits:
    BLOCK = 256

    def __init__(self, length, signed):
        self.map = bnb.create_dynamic_map(signed=signed).numpy().astype(np.float32)
        self.codes = np.full(length, np.abs(self.map).argmin(), np.uint8)
        self.largest = np.zeros(-(-length // self.BLOCK), np.float32)
        self.signed = signed

    def values(self):
        return self.map[self.codes] * np.repeat(self.largest, self.BLOCK)[: len(self.codes)]

    def store(self, values):
        for block in range(len(self.largest)):
            part = slice(block * self.BLOCK, (block + 1) * self.BLOCK)
            v = values[part]
            largest = np.abs(v).max()
            self.largest[block] = largest
            share = v / largest if largest > 0 else np.zeros_like(v)
            codes = np.abs(self.map[None] - share[:, None]).argmin(1)
            if self.signed:
                lost = np.signbit(self.map[codes]) != np.signbit(v)
                codes = np.where(lost, np.where(v > 0, codes + 1, codes - 1), codes)
            self.codes[part] = codes


def bitsandbytes_step(p, g, m, v, lr, betas, eps, decay, step):
    f = np.float32
    c1, c2 = 1 - betas[0] ** step, (1 - betas[1] ** step) ** 0.5
    v = v * f(betas[1]) + f(1 - f(betas[1])) * g * g
    m = m * f(betas[0]) + f(1 - f(betas[0])) * g
    p = p + f(-lr * c2 / c1) * (m / (np.sqrt(v) + f(c2) * f(eps)))
    return p * f(1 - f(lr * decay)), m, v


def eight_bits(tensors, info):
    settings = dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, decay=1e-2)
    steps = 6
    for name, length in {"blocks": 16 * 256 + 100, "small": 1280}.items():
        rng = generator(31)
        start = torch.randn(length, generator=rng)
        given = torch.randn(steps, length, generator=rng) * 10 ** (torch.rand(length, generator=rng) - 2)
        given[:, :256] = 0  # a block without any gradient, as all of A at a LoRA's first step
        p = start.numpy().copy()
        if name == "blocks":
            m, v = EightBits(length, True), EightBits(length, False)
        else:
            m = v = np.zeros(length, np.float32)
        moved = []
        for step in range(1, steps + 1):
            old = (m.values(), v.values()) if name == "blocks" else (m, v)
            p, new_m, new_v = bitsandbytes_step(p, given[step - 1].numpy(), *old, **settings, step=step)
            if name == "blocks":
                m.store(new_m)
                v.store(new_v)
            else:
                m, v = new_m, new_v
            moved.append(torch.from_numpy(p.copy()))
        found = {"start": start, "gradients": given, "weights": torch.stack(moved)}
        if name == "blocks":
            found |= {"mean_codes": torch.from_numpy(m.codes.astype(np.float32)),
                      "square_codes": torch.from_numpy(v.codes.astype(np.float32))}
        tensors |= {f"adamw8bit/{name}/{key}": value for key, value in found.items()}
    tensors |= {"adamw8bit/signed": bnb.create_dynamic_map(True), "adamw8bit/unsigned": bnb.create_dynamic_map(False)}
    info["adamw8bit"] = settings


def rates(info):
    info["rates"] = {}
    for name, ours in {"constant_with_warmup": "constant", "linear": "linear", "cosine": "cosine"}.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
        schedule = get_scheduler(name, optimizer, num_warmup_steps=4, num_training_steps=20)
        found = []
        for _ in range(20):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        info["rates"][ours] = found


def averages(tensors):
    parameter = torch.nn.Parameter(torch.randn(6, generator=generator(41)))
    ema = EMAModel([parameter], decay=0.6)
    values, shadows = [parameter.detach().clone()], [ema.shadow_params[0].clone()]
    rng = generator(42)
    for _ in range(20):
        with torch.no_grad():
            parameter += 0.1 * torch.randn(6, generator=rng)
        ema.step([parameter])
        values.append(parameter.detach().clone())
        shadows.append(ema.shadow_params[0].clone())
    tensors |= {"average/values": torch.stack(values), "average/averages": torch.stack(shadows)}


def clipping(tensors):
    found = [torch.nn.Parameter(torch.zeros(5)), torch.nn.Parameter(torch.zeros(3, 2))]
    for i, p in enumerate(found):
        p.grad = torch.randn(p.shape, generator=generator(51 + i)) * (1 + 3 * i)
        tensors[f"clip/{i}/before"] = p.grad.clone()
    tensors["clip/norm"] = torch.nn.utils.clip_grad_norm_(found, 1.0)[None]
    tensors |= {f"clip/{i}/after": p.grad.clone() for i, p in enumerate(found)}


def objectives(tensors, info):
    """Two samples at far timesteps, so that weighting after the mean over both would show."""
    rng = generator(61)
    clean, noise, said = (torch.randn(2, 4, 3, 2, generator=rng) for _ in range(3))
    t = torch.tensor([17, 730])
    tensors |= {"objective/clean": clean, "objective/noise": noise, "objective/prediction": said}
    info["objective"] = {"timesteps": t.tolist(), "gamma": 5.0}
    for kind in ("epsilon", "v_prediction"):
        scheduler = DDIMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear", beta_start=0.00085,
                                  beta_end=0.012, prediction_type=kind)
        tensors["objective/alphas"] = scheduler.alphas_cumprod[t]
        tensors["objective/noisy"] = scheduler.add_noise(clean, noise, t)
        target = noise if kind == "epsilon" else scheduler.get_velocity(clean, noise, t)
        tensors[f"objective/{kind}/target"] = target
        snr = compute_snr(scheduler, t)
        weights = torch.stack([snr, 5.0 * torch.ones_like(snr)], dim=1).min(dim=1)[0]
        weights = weights / (snr if kind == "epsilon" else snr + 1)
        for name, weight in {"even": torch.ones(2), "min_snr": weights}.items():
            output = said.clone().requires_grad_()
            loss = ((output - target) ** 2).mean(dim=(1, 2, 3)) * weight
            loss.mean().backward()
            tensors[f"objective/{kind}/{name}/losses"] = loss
            tensors[f"objective/{kind}/{name}/gradient"] = output.grad


def scales(info):
    """PyTorch's GradScaler after stretches of good steps and of steps with a gradient that is not finite."""
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    scaler = torch.amp.GradScaler("cpu")
    info["scales"] = []
    for steps, finite in ((1, True), (2, False), (1999, True), (1, True), (1, False), (1999, True), (1, False), (4001, True), (30, False)):
        for _ in range(steps):
            scaler.scale(parameter.sum()).backward()
            if not finite:
                parameter.grad.fill_(float("inf"))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        info["scales"].append({"steps": steps, "finite": finite, "scale": scaler.get_scale()})


def make():
    path = case_dir("training")
    tensors, info = {}, {}
    adamw(tensors, info)
    adafactor(tensors, info)
    eight_bits(tensors, info)
    rates(info)
    averages(tensors)
    clipping(tensors)
    objectives(tensors, info)
    scales(info)
    write_tensors(path / "expected.safetensors", tensors)
    write_json(path / "case.json", info)
