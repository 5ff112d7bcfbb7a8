"""Tiny random networks of SD1.x and SDXL shape, saved the way the hub's repositories are laid out."""

import json

import torch
from common import randomize, round_to_f16, write_json
from diffusers import AutoencoderKL, UNet2DConditionModel
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

# The cut-down vocabulary of the tiny checkpoints: 512 byte tokens, 486 merges, start and end of text.
TINY_MERGES = 486
TINY_VOCABULARY = 1000


def save_state(path, state, dtype=torch.float16):
    """Float tensors in `dtype`; integer buffers as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {k: v.to(dtype) if v.is_floating_point() else v for k, v in state.items()}
    save_file({k: v.contiguous() for k, v in state.items()}, path, metadata={"format": "pt"})


def build_unet(config, seed):
    return round_to_f16(randomize(UNet2DConditionModel.from_config(config), seed))


def build_vae(config, seed):
    return round_to_f16(randomize(AutoencoderKL.from_config(config), seed))


def build_text_encoder(config, seed, projection=False):
    kind = CLIPTextModelWithProjection if projection else CLIPTextModel
    return round_to_f16(randomize(kind(CLIPTextConfig(**config)).float(), seed))


def save_network(folder, config, state, file="diffusion_pytorch_model.safetensors"):
    save_state(folder / file, state)
    write_json(folder / "config.json", config)


def classic_text_state(model, position_ids):
    """transformers before version 5 wrote `text_model.` before the keys of CLIPTextModel, as all published files have;
    version 5 drops it for CLIPTextModel (but keeps it for CLIPTextModelWithProjection)."""
    state = {k if k.startswith("text_") else f"text_model.{k}": v for k, v in model.state_dict().items()}
    if position_ids:  # an int64 buffer in files written before transformers 4.31, SD1.5's among them
        length = model.config.max_position_embeddings
        state["text_model.embeddings.position_ids"] = torch.arange(length)[None]
    return state


def deprecated_vae_attention(state):
    """SD1.5's published VAE has the attention names of diffusers before 0.12, with the same [C, C] shapes."""
    names = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    renamed = {}
    for key, value in state.items():
        for new, old in names.items():
            if ".attentions." in key:
                key = key.replace(f".{new}.", f".{old}.")
        renamed[key] = value
    return renamed


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))
