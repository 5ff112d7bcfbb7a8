"""`fixtures/training-steps/`: twenty steps of AdamW on a tiny UNet by PyTorch, of all its weights and of a LoRA by PEFT.

The UNet is that of `fixtures/single-file/sd1`. Latents, noise, timesteps and text states of each step are stored; the samples of a batch
have timesteps of their own. Each case is computed in f64 as well, and how far f32 is from that is in `case.json`.
"""

import copy

import torch
from common import FIXTURES, case_dir, generator, write_json, write_tensors
from diffusers import DDIMScheduler, UNet2DConditionModel
from peft import LoraConfig

STEPS, BATCH, TOKENS = 20, 2, 5
ADAM = {"lora": dict(lr=1e-2, eps=1e-8, weight_decay=1e-2), "unet": dict(lr=1e-3, eps=1e-3, weight_decay=1e-2)}
RANK, ALPHA = 2, 3.0
TARGETS = ["to_q", "to_k", "to_v", "to_out.0"]


def name_of(key):
    return key.replace(".default.", ".").replace("base_layer.", "")


def inputs(unet):
    rng = generator(81)
    size = unet.config.sample_size
    shape = (STEPS, BATCH, unet.config.in_channels, size, size)
    return {"clean": torch.randn(shape, generator=rng), "noise": torch.randn(shape, generator=rng),
            "context": torch.randn(STEPS, BATCH, TOKENS, unet.config.cross_attention_dim, generator=rng),
            "timesteps": torch.randint(0, 1000, (STEPS, BATCH), generator=rng)}


def steps(unet, given, settings, dtype):
    unet = unet.to(dtype)
    scheduler = DDIMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012)
    trained = {name_of(name): p for name, p in unet.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(trained.values(), foreach=False, **settings)
    losses = []
    for step in range(STEPS):
        clean, noise, t = given["clean"][step].to(dtype), given["noise"][step].to(dtype), given["timesteps"][step]
        said = unet(scheduler.add_noise(clean, noise, t), t, given["context"][step].to(dtype)).sample
        loss = ((said - noise) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return {name: p.detach() for name, p in trained.items()}, torch.stack(losses)


def make():
    path = case_dir("training-steps")
    base = UNet2DConditionModel.from_pretrained(FIXTURES / "single-file/sd1/unet", use_safetensors=False).float()
    given = inputs(base)
    tensors, info = dict(given), {"alpha": ALPHA, "rank": RANK, "targets": TARGETS, "adam": ADAM, "deviation": {}}
    for kind in ADAM:
        unet = copy.deepcopy(base)
        if kind == "lora":
            unet.add_adapter(LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS))
            rng = generator(91)
            for name, p in sorted(unet.named_parameters()):
                if p.requires_grad:
                    # B is not zero, so that A has a gradient from the start.
                    p.data = 0.1 * torch.randn(p.shape, generator=rng)
                    tensors[f"lora/start/{name_of(name)}"] = p.data.clone()
        exact, _ = steps(copy.deepcopy(unet), given, ADAM[kind], torch.float64)
        found, losses = steps(unet, given, ADAM[kind], torch.float32)
        largest = max((found[n] - exact[n]).abs().max().item() for n in found)
        info["deviation"][kind] = float(f"{largest:.1e}")
        tensors[f"{kind}/losses"] = losses
        tensors |= {f"{kind}/after/{name}": p for name, p in found.items()}
    write_tensors(path / "expected.safetensors", tensors)
    write_json(path / "case.json", info)
