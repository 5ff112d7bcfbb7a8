"""`fixtures/single-file/`: one tiny SD1.x and one tiny SDXL in every container that people have."""

import sys
import types
from collections import OrderedDict

import torch
from cases.sd1 import MODEL_INDEX as SD1_INDEX
from cases.sd1 import TEXT, UNET, VAE
from cases.sdxl import MODEL_INDEX as SDXL_INDEX
from cases.sdxl import UNET as SDXL_UNET
from common import case_dir, randomize, write_json, write_tensors
from diffusers import AutoencoderKL, UNet2DConditionModel
from ldm import (
    check_round_trip,
    clip_ldm_state,
    open_clip_ldm_state,
    unet_to_ldm,
    vae_ldm_state,
)
from networks import TINY_MERGES, classic_text_state, save_network, save_state
from outputs import random_like
from safetensors.torch import save_file
from scheduler_configs import SD1, SDXL
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection
from vocabulary import write_tokenizer

TWO_LEVELS = {"block_out_channels": [8, 16], "norm_num_groups": 4, "sample_size": 8}
MINI_UNET = {
    **UNET,
    **TWO_LEVELS,
    "attention_head_dim": 2,
    "cross_attention_dim": 16,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
}
MINI_SDXL_UNET = {
    **SDXL_UNET,
    **TWO_LEVELS,
    "attention_head_dim": [1, 2],
    "cross_attention_dim": 40,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "projection_class_embeddings_input_dim": 72,  # 24 pooled + 6 time ids × 8
    "transformer_layers_per_block": [1, 2],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
}
MINI_VAE = VAE | {
    "block_out_channels": [8, 8],
    "down_block_types": ["DownEncoderBlock2D"] * 2,
    "norm_num_groups": 4,
    "sample_size": 16,
    "up_block_types": ["UpDecoderBlock2D"] * 2,
}
MINI_SDXL_VAE = MINI_VAE | {"scaling_factor": 0.13025}
MINI_TEXT = TEXT | {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
# Square projection, as SDXL's: a forgotten transposition changes no shape.
MINI_TEXT_2 = MINI_TEXT | {
    "architectures": ["CLIPTextModelWithProjection"],
    "hidden_act": "gelu",
    "hidden_size": 24,
    "intermediate_size": 48,
    "projection_dim": 24,
}


def exact_in_every_type(module):
    """Weights that f32, f16 and bf16 all hold exactly, so that every container expects the same outputs."""
    with torch.no_grad():
        for parameter in module.parameters():
            rounded = parameter.to(torch.bfloat16).to(torch.float32)
            parameter.copy_(torch.where(rounded.abs() < 2.0**-14, 0.0, rounded))
    return module


def networks(seed, unet, vae, texts):
    build = {
        "unet": (UNet2DConditionModel.from_config(unet), unet),
        "vae": (AutoencoderKL.from_config(vae), vae),
    }
    for name, config in texts.items():
        kind = CLIPTextModelWithProjection if name == "text_encoder_2" else CLIPTextModel
        build[name] = (kind(CLIPTextConfig(**config)).float(), config)
    for i, (model, _) in enumerate(build.values()):
        exact_in_every_type(randomize(model, seed + i))
    return build


def schedule_buffers():
    """LDM saves its noise schedule as buffers; a loader has to know that they are not weights."""
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    alphas = (1 - betas).cumprod(0)
    names = ("alphas_cumprod", "alphas_cumprod_prev", "sqrt_alphas_cumprod", "sqrt_one_minus_alphas_cumprod")
    more = ("log_one_minus_alphas_cumprod", "sqrt_recip_alphas_cumprod", "sqrt_recipm1_alphas_cumprod")
    posterior = ("posterior_variance", "posterior_log_variance_clipped", "posterior_mean_coef1", "posterior_mean_coef2")
    buffers = {"betas": betas.float()} | {name: alphas.float()[:10].clone() for name in names + more + posterior}
    return buffers | {"model_ema.decay": torch.tensor(0.9999), "model_ema.num_updates": torch.tensor(7, dtype=torch.int32)}


def sd1_ldm_state(nets):
    unet, config = nets["unet"]
    state = {ldm: unet.state_dict()[key] for ldm, key in unet_to_ldm(unet.state_dict(), config).items()}
    state |= vae_ldm_state(nets["vae"][0].state_dict(), nets["vae"][1])
    check_round_trip(state, (unet.state_dict(), config), (nets["vae"][0].state_dict(), nets["vae"][1]))
    text = classic_text_state(nets["text_encoder"][0], position_ids=True)
    return state | clip_ldm_state(text, "cond_stage_model.transformer.") | schedule_buffers()


def sdxl_ldm_state(nets):
    unet, config = nets["unet"]
    state = {ldm: unet.state_dict()[key] for ldm, key in unet_to_ldm(unet.state_dict(), config).items()}
    state |= vae_ldm_state(nets["vae"][0].state_dict(), nets["vae"][1])
    text = classic_text_state(nets["text_encoder"][0], position_ids=True)
    state |= clip_ldm_state(text, "conditioner.embedders.0.transformer.")
    text_2 = classic_text_state(nets["text_encoder_2"][0], position_ids=False)
    state |= open_clip_ldm_state(text_2)
    check_round_trip(state, (unet.state_dict(), config), (nets["vae"][0].state_dict(), nets["vae"][1]), text_2)
    state["conditioner.embedders.1.model.logit_scale"] = torch.tensor(4.6055)
    state["denoiser.sigmas"] = torch.linspace(0.0292, 14.6146, 1000)
    return state


def cast(state, dtype):
    return {k: v.to(dtype).contiguous() if v.is_floating_point() else v for k, v in state.items()}


def lightning_checkpoint(state):
    """What CompVis' files hold around the weights, a class that the reader does not have included."""
    names = "pytorch_lightning", "pytorch_lightning.callbacks", "pytorch_lightning.callbacks.model_checkpoint"
    for name in names:
        sys.modules.setdefault(name, types.ModuleType(name))
    callback = type("ModelCheckpoint", (), {"__module__": names[-1]})
    sys.modules[names[-1]].ModelCheckpoint = callback
    return {
        "epoch": 11,
        "global_step": 470000,
        "pytorch-lightning_version": "1.4.2",
        "callbacks": {callback: {"monitor": "val/loss", "best_model_score": torch.tensor(0.25), "dirpath": None}},
        "lr_schedulers": [{"base_lrs": [1e-4], "last_epoch": 3}],
        "state_dict": OrderedDict(state),
    }


def ema_keys(state):
    """A few of the averaged copies that the "pruned, not ema-only" files have; diffusers ignores them by default."""
    keys = [key for key in state if key.startswith("model.diffusion_model.")][:4]
    return {"model_ema." + key.removeprefix("model.").replace(".", ""): state[key] * 0.5 for key in keys}


def write_folder(path, nets, index, scheduler, state_writer):
    (path / "scheduler").mkdir(parents=True)
    write_json(path / "model_index.json", index)
    write_json(path / "scheduler/scheduler_config.json", scheduler)
    for name, (model, config) in nets.items():
        text = name.startswith("text")
        state = classic_text_state(model, position_ids=False) if text else model.state_dict()
        (path / name).mkdir(parents=True, exist_ok=True)
        write_json(path / name / "config.json", config)
        state_writer(path / name, cast(state, torch.float16), text)


def write_bin(folder, state, text):
    torch.save(state, folder / ("pytorch_model.bin" if text else "diffusion_pytorch_model.bin"))


def write_shards(folder, state, text):
    """As save_pretrained splits a large network: two files and an index."""
    stem = "model" if text else "diffusion_pytorch_model"
    names = sorted(state)
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    files = {f"{stem}-0000{i + 1}-of-00002.safetensors": half for i, half in enumerate(halves)}
    for file, keys in files.items():
        save_file({key: state[key] for key in keys}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {"total_size": sum(v.numel() * 2 for v in state.values())}}
    index["weight_map"] = {key: file for file, keys in files.items() for key in keys}
    write_json(folder / f"{stem}.safetensors.index.json", index)


@torch.no_grad()
def sd1_outputs(nets):
    tokens = torch.tensor([[998] + list(range(300, 320)) + [999] * 56])
    hidden = nets["text_encoder"][0](tokens).last_hidden_state
    sample, latents = random_like((1, 4, 8, 8), 71), random_like((1, 4, 6, 8), 72)
    image = random_like((1, 3, 12, 16), 73).clamp(-1, 1)
    out = nets["unet"][0](sample, torch.tensor([321]), hidden).sample
    tensors = {"text/tokens": tokens, "text/last": hidden, "unet/sample": sample, "unet/out": out}
    return tensors | vae_outputs(nets["vae"][0], latents, image)


def vae_outputs(vae, latents, image):
    decoded, mean = vae.decode(latents).sample, vae.encode(image).latent_dist.mean
    return {"vae/latents": latents, "vae/decoded": decoded, "vae/image": image, "vae/mean": mean}


@torch.no_grad()
def sdxl_outputs(nets):
    tokens = torch.tensor([[998] + list(range(300, 320)) + [999] * 56])
    tokens_2 = torch.tensor([[998] + list(range(300, 320)) + [999] + [0] * 55])
    first = nets["text_encoder"][0](tokens, output_hidden_states=True).hidden_states[-2]
    second = nets["text_encoder_2"][0](tokens_2, output_hidden_states=True)
    context = torch.cat([first, second.hidden_states[-2]], -1)
    added = {"text_embeds": second.text_embeds, "time_ids": torch.tensor([[32.0, 48, 0, 0, 32, 48]])}
    sample, latents = random_like((1, 4, 8, 8), 71), random_like((1, 4, 6, 8), 72)
    image = random_like((1, 3, 12, 16), 73).clamp(-1, 1)
    out = nets["unet"][0](sample, torch.tensor([321]), context, added_cond_kwargs=added).sample
    tensors = {"text/tokens": tokens, "text_2/tokens": tokens_2, "context": context, "unet/sample": sample}
    tensors |= {"unet/out": out} | {f"unet/{key}": value for key, value in added.items()}
    return tensors | vae_outputs(nets["vae"][0], latents, image)


@torch.no_grad()
def write_separate_vaes(path):
    """Another autoencoder, in the ways in which it is passed around on its own."""
    vae = exact_in_every_type(randomize(AutoencoderKL.from_config(MINI_VAE), 99))
    state = vae.state_dict()
    save_network(path / "vae-diffusers", MINI_VAE, state)
    bare = vae_ldm_state(state, MINI_VAE, prefix="")
    save_state(path / "vae-ldm.safetensors", bare)
    training = {"loss.logvar": torch.tensor(0.0), "loss.discriminator.main.0.weight": torch.zeros(4, 3, 4, 4)}
    torch.save({"epoch": 1, "state_dict": cast(bare | training, torch.float32)}, path / "vae-ldm.ckpt")
    latents, image = random_like((1, 4, 6, 8), 72), random_like((1, 3, 12, 16), 73).clamp(-1, 1)
    write_tensors(path / "expected-vae.safetensors", vae_outputs(vae, latents, image))


def make():
    path = case_dir("single-file")
    sd1 = networks(81, MINI_UNET, MINI_VAE, {"text_encoder": MINI_TEXT})
    state = sd1_ldm_state(sd1)
    for name, dtype in (("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)):
        save_state(path / f"sd1-{name}.safetensors", state, dtype)
    half = cast(state, torch.float16)
    torch.save(lightning_checkpoint(half | ema_keys(half)), path / "sd1-f16.ckpt")
    legacy = {"global_step": 1, "state_dict": cast(state, torch.bfloat16)}
    torch.save(legacy, path / "sd1-bf16-legacy.ckpt", _use_new_zipfile_serialization=False)
    write_folder(path / "sd1", sd1, SD1_INDEX, SD1, write_bin)
    write_tokenizer(path / "sd1/tokenizer", TINY_MERGES)
    write_tensors(path / "expected-sd1.safetensors", sd1_outputs(sd1))

    sdxl = networks(91, MINI_SDXL_UNET, MINI_SDXL_VAE, {"text_encoder": MINI_TEXT, "text_encoder_2": MINI_TEXT_2})
    save_state(path / "sdxl-f16.safetensors", sdxl_ldm_state(sdxl))
    write_folder(path / "sdxl", sdxl, SDXL_INDEX, SDXL, write_shards)
    write_tokenizer(path / "sdxl/tokenizer", TINY_MERGES)
    write_tokenizer(path / "sdxl/tokenizer_2", TINY_MERGES, pad_token="!")
    write_tensors(path / "expected-sdxl.safetensors", sdxl_outputs(sdxl))
    write_separate_vaes(path)
