"""`fixtures/gradients/`: the gradients of small UNets of the shapes of SD1.x, SD2.x and SDXL, to every parameter and to every
factor of low-rank branches (PEFT's), for one loss and batch."""

import torch
from cases.sd2 import SD2_UNET
from cases.single_file import MINI_SDXL_UNET, MINI_UNET
from common import case_dir, generator, write_case
from networks import build_unet, save_network
from outputs import random_like
from peft import LoraConfig

SMALL = {"block_out_channels": [8, 12], "norm_num_groups": 4}
NETWORKS = {
    "sd1": (MINI_UNET | SMALL, 301),
    "sd2": (SD2_UNET | SMALL | {"cross_attention_dim": 12}, 302),
    "sdxl": (MINI_SDXL_UNET | SMALL | {"cross_attention_dim": 12}, 303),
}
# Two samples of their own timestep and weight, of an odd height.
TIMESTEPS = [17, 730]
WEIGHTS = [1.0, 0.35]
SIZE = (2, 4, 7, 8)
LINEAR = ["to_q", "to_k", "to_v", "to_out.0", "ff.net.0.proj", "ff.net.2", "proj_in", "proj_out", "conv_shortcut"]
CONVOLUTIONS = ["conv1", "conv2", "downsamplers.0.conv", "upsamplers.0.conv"]
LINEAR_LORA = {"r": 2, "lora_alpha": 3}
CONV_LORA = {"r": 1, "lora_alpha": 2}


def batch(config, dtype):
    tensors = {"sample": random_like(SIZE, 311), "target": random_like(SIZE, 312)}
    tensors["context"] = random_like((2, 5, config["cross_attention_dim"]), 313)
    if config.get("addition_embed_type"):
        tensors["text_embeds"] = random_like((2, 24), 314)
        tensors["time_ids"] = torch.tensor([[64.0, 96.0, 0.0, 8.0, 64.0, 96.0], [48.0, 48.0, 4.0, 0.0, 64.0, 64.0]])
    return {name: value.to(dtype) for name, value in tensors.items()}


def step(unet, config, dtype):
    """The loss, and the gradients by the parameters' names."""
    given = batch(config, dtype)
    added = {name: given[name] for name in ("text_embeds", "time_ids") if name in given}
    out = unet(given["sample"], torch.tensor(TIMESTEPS), given["context"], added_cond_kwargs=added).sample
    each = (out - given["target"]).square().mean((1, 2, 3))
    loss = (each * torch.tensor(WEIGHTS, dtype=dtype)).mean()
    loss.backward()
    gradients = {name: p.grad for name, p in unet.named_parameters() if p.requires_grad}
    return given, loss, gradients


def add_branches(unet):
    """Branches beside every kind of layer, with random `B`: from zeros `A` would get no gradient."""
    convolution = "|".join(name.replace(".", r"\.") for name in CONVOLUTIONS)
    pattern = rf".*\.({convolution})"
    lora = LoraConfig(
        **LINEAR_LORA,
        target_modules=LINEAR + CONVOLUTIONS + ["time_emb_proj"],
        rank_pattern={pattern: CONV_LORA["r"]},
        alpha_pattern={pattern: CONV_LORA["lora_alpha"]},
        init_lora_weights=False,
    )
    unet.requires_grad_(False)
    unet.add_adapter(lora)
    rng = generator(315)
    with torch.no_grad():
        for name, factor in sorted(unet.named_parameters()):
            if "lora_" in name:
                factor.copy_(torch.randn(factor.shape, generator=rng) * 0.2)


def plain(name):
    """A factor's name without that of the adapter; a parameter's as it was before there was one."""
    return name.replace(".default.", ".").replace(".base_layer.", ".")


def reference(config, seed, dtype):
    unet = build_unet(config, seed).to(dtype)
    given, loss, gradients = step(unet, config, dtype)
    tensors = {f"batch/{name}": value for name, value in given.items()}
    tensors |= {"full/loss": loss} | {f"full/{name}": value for name, value in gradients.items()}
    unet.zero_grad()
    add_branches(unet)
    _, loss, gradients = step(unet, config, dtype)
    factors = {name: value for name, value in unet.named_parameters() if "lora_" in name}
    tensors |= {"lora/loss": loss} | {f"lora/{plain(name)}": value for name, value in gradients.items()}
    tensors |= {f"factor/{plain(name)}": value for name, value in factors.items()}
    return tensors


def deviation(tensors, exact):
    """The largest error of a gradient as a share of its largest element."""
    shares = [(tensors[name] - exact[name]).abs().max() / exact[name].abs().max() for name in tensors]
    return float(max(share for share in shares if not share.isnan()))


def make():
    path = case_dir("gradients")
    for name, (config, seed) in NETWORKS.items():
        folder = path / name
        (folder / "unet").mkdir(parents=True)
        save_network(folder / "unet", config, build_unet(config, seed).state_dict())
        tensors = reference(config, seed, torch.float32)
        exact = reference(config, seed, torch.float64)
        info = {"timesteps": TIMESTEPS, "weights": WEIGHTS, "linear": LINEAR_LORA, "convolution": CONV_LORA}
        info["largest_relative_deviation_from_f64"] = float(f"{deviation(tensors, exact):.1e}")
        # Losses and gradients as f64 gives them: PyTorch's own rounding in f32 is no part of what others have to come to.
        tensors |= {name: value.float() for name, value in exact.items() if name.split("/")[0] in ("full", "lora")}
        write_case("gradients", tensors, info, folder)
