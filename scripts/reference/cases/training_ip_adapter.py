"""`fixtures/training-ip-adapter/`: steps of AdamW on IP-Adapters of a tiny UNet, by PyTorch and diffusers in f64.

The UNet is that of `fixtures/single-file/sd1`, the adapters are those of `fixtures/ip-adapter`: the plain one and the one with a resampler,
whose keys and values diffusers keeps apart and the file has as one. Samples have timesteps and pictures of their own; the first sample of
the second step is shown none. Losses, the first step's gradients and the weights after the last step are stored; of tensors with more than
`LARGE` elements every `STRIDE`-th alone. How far f32 is from f64 in PyTorch is in `case.json`.
"""

import copy

import torch
from cases.ip_adapter import KINDS, STATES, VISION, adapter, base, copied, in_f64, load
from common import case_dir, generator, write_json, write_tensors
from diffusers import DDIMScheduler

STEPS, BATCH, TOKENS, SIZE = 6, 2, 5, 8
# Some elements of the first gradient are tiny; with PyTorch's usual epsilon their rounding would decide the first step.
ADAM = dict(lr=1e-3, eps=1e-5, weight_decay=1e-2)
LARGE, STRIDE = 256, 61
# The adapters that are trained, and rows and channels of what they look at.
TRAINED = {"plain": (1, VISION["projection_dim"]), "plus": (STATES, VISION["hidden_size"])}
PROJECTORS = {
    "plain": [("image_embeds.", "proj.")],
    "plus": [
        (".attn.to_q.", ".0.to_q."),
        (".attn.to_out.0.", ".0.to_out."),
        (".ln0.", ".0.norm1."),
        (".ln1.", ".0.norm2."),
        (".ff.0.", ".1.0."),
        (".ff.1.net.0.proj.", ".1.1."),
        (".ff.1.net.2.", ".1.3."),
    ],
}


def given(width):
    rng = generator(97)
    shape = (STEPS, BATCH, 4, SIZE, SIZE)
    inputs = {
        "clean": torch.randn(shape, generator=rng),
        "noise": torch.randn(shape, generator=rng),
        "context": torch.randn(STEPS, BATCH, TOKENS, width, generator=rng),
        "timesteps": torch.randint(0, 1000, (STEPS, BATCH), generator=rng),
    }
    for kind, rows in TRAINED.items():
        features = torch.randn(STEPS, BATCH, *rows, generator=rng)
        features[1, 0] = 0
        inputs[f"{kind}/features"] = features
    return inputs


def trained(unet, kind):
    """Parameters by the names of the published files; a resampler's keys and values are two tensors, the keys first."""
    found = {}
    projector = unet.encoder_hid_proj.image_projection_layers[0]
    for name, parameter in projector.named_parameters():
        for own, published in PROJECTORS[kind]:
            name = name.replace(own, published)
        for which in ("k", "v"):
            name = name.replace(f".attn.to_{which}.", ".0.to_kv.")
        found.setdefault(f"image_proj.{name}", []).append(parameter)
    for number, processor in enumerate(unet.attn_processors.values()):
        for which in ("k", "v") if hasattr(processor, "to_k_ip") else ():
            weights = getattr(processor, f"to_{which}_ip")
            found[f"ip_adapter.{number}.to_{which}_ip.weight"] = [weights[0].weight]
    return found


def steps(unet, state, kind, inputs, dtype):
    unet = unet.to(dtype)
    load(unet, [in_f64(copied(state), dtype)])
    unet.to(dtype)
    scheduler = DDIMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012)
    parameters = trained(unet, kind)
    flat = {f"{part}.{name}" for part, values in state.items() for name in values}
    assert parameters.keys() == flat, parameters.keys() ^ flat
    unet.requires_grad_(False)
    for parts in parameters.values():
        for part in parts:
            part.requires_grad_(True)
    optimizer = torch.optim.AdamW([part for parts in parameters.values() for part in parts], foreach=False, **ADAM)
    found = {"losses": []}
    for step in range(STEPS):
        clean, noise, t = inputs["clean"][step].to(dtype), inputs["noise"][step].to(dtype), inputs["timesteps"][step]
        # One picture for each sample.
        features = inputs[f"{kind}/features"][step].to(dtype)
        features = features if kind == "plain" else features[:, None]
        context = inputs["context"][step].to(dtype)
        said = unet(scheduler.add_noise(clean, noise, t), t, context, added_cond_kwargs={"image_embeds": [features]}).sample
        loss = ((said - noise) ** 2).mean()
        loss.backward()
        if step == 0:
            found |= {f"gradient/{name}": torch.cat([part.grad for part in parts]) for name, parts in parameters.items()}
        optimizer.step()
        optimizer.zero_grad()
        found["losses"].append(loss.detach())
    found["losses"] = torch.stack(found["losses"])
    return found | {f"after/{name}": torch.cat([part.detach() for part in parts]) for name, parts in parameters.items()}


def some(value):
    return value.flatten()[::STRIDE] if value.numel() > LARGE else value


def make():
    path = case_dir("training-ip-adapter")
    unet = base("sd1")[0]["unet"][0].eval()
    inputs = given(unet.config.cross_attention_dim)
    tensors, deviation = dict(inputs), {}
    for kind in TRAINED:
        state = adapter(kind, unet, KINDS[kind])
        exact, single = (steps(copy.deepcopy(unet), state, kind, inputs, dtype) for dtype in (torch.float64, torch.float32))
        tensors |= {f"{kind}/{name}": some(value).float() for name, value in exact.items()}
        for what in ("gradient", "after"):
            pairs = [(single[name], value) for name, value in exact.items() if name.startswith(what)]
            off = [((a - b).abs().max() / (b.abs().max() if what == "gradient" else 1)).item() for a, b in pairs]
            deviation[f"{kind}/{what}"] = float(f"{max(off):.1e}")
    write_tensors(path / "expected.safetensors", tensors)
    write_json(path / "case.json", {"adam": ADAM, "large": LARGE, "stride": STRIDE, "deviation": deviation})
