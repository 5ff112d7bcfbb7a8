"""`fixtures/keys/`: names and shapes of every tensor of the full-size networks, in both name systems."""

import gzip

import torch
from cases.sd1 import UNET as SD1_UNET
from cases.sd1 import VAE as SD1_VAE
from cases.sdxl import UNET as SDXL_UNET
from common import case_dir
from diffusers import AutoencoderKL, UNet2DConditionModel
from ldm import check_round_trip, open_clip_ldm_state, unet_to_ldm, vae_ldm_state, vae_to_ldm
from networks import classic_text_state
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

CROSS_DOWN, DOWN, UP, CROSS_UP = "CrossAttnDownBlock2D", "DownBlock2D", "UpBlock2D", "CrossAttnUpBlock2D"
FULL_SD1_UNET = SD1_UNET | {
    "attention_head_dim": 8,
    "block_out_channels": [320, 640, 1280, 1280],
    "cross_attention_dim": 768,
    "down_block_types": [CROSS_DOWN] * 3 + [DOWN],
    "norm_num_groups": 32,
    "sample_size": 64,
    "up_block_types": [UP] + [CROSS_UP] * 3,
}
FULL_SDXL_UNET = SDXL_UNET | {
    "addition_time_embed_dim": 256,
    "attention_head_dim": [5, 10, 20],
    "block_out_channels": [320, 640, 1280],
    "cross_attention_dim": 2048,
    "norm_num_groups": 32,
    "projection_class_embeddings_input_dim": 2816,
    "sample_size": 128,
    "transformer_layers_per_block": [1, 2, 10],
}
FULL_VAE = SD1_VAE | {
    "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "layers_per_block": 2,
    "norm_num_groups": 32,
    "sample_size": 512,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
}
FULL_CLIP_L = {
    "eos_token_id": 2,
    "hidden_act": "quick_gelu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "projection_dim": 768,
    "vocab_size": 49408,
}
FULL_CLIP_G = FULL_CLIP_L | {
    "hidden_act": "gelu",
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_attention_heads": 20,
    "num_hidden_layers": 32,
    "projection_dim": 1280,
}


def write_list(path, rows):
    lines = ["\t".join([*names, "x".join(map(str, shape))]) for *names, shape in sorted(rows)]
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(("\n".join(lines) + "\n").encode())


def full_networks():
    """Names and shapes only: nothing is allocated."""
    with torch.device("meta"):
        return {
            "sd1_unet": (UNet2DConditionModel.from_config(FULL_SD1_UNET).state_dict(), FULL_SD1_UNET),
            "sdxl_unet": (UNet2DConditionModel.from_config(FULL_SDXL_UNET).state_dict(), FULL_SDXL_UNET),
            "vae": (AutoencoderKL.from_config(FULL_VAE).state_dict(), FULL_VAE),
            "clip_l": (classic_text_state(CLIPTextModel(CLIPTextConfig(**FULL_CLIP_L)), True), FULL_CLIP_L),
            "clip_g": (
                classic_text_state(CLIPTextModelWithProjection(CLIPTextConfig(**FULL_CLIP_G)), False),
                FULL_CLIP_G,
            ),
        }


def make():
    path = case_dir("keys")
    networks = full_networks()
    for name in ("sd1_unet", "sdxl_unet"):
        state, config = networks[name]
        names = unet_to_ldm(state, config)
        check_round_trip({ldm: state[key] for ldm, key in names.items()}, unet=(state, config))
        write_list(path / f"{name}.tsv.gz", [(key, ldm, state[key].shape) for ldm, key in names.items()])
    state, config = networks["vae"]
    check_round_trip(vae_ldm_state(state, config), vae=(state, config))
    rows = [(key, ldm, state[key].shape) for ldm, key in vae_to_ldm(state, config).items()]
    write_list(path / "vae.tsv.gz", rows)
    write_list(path / "clip_l.tsv.gz", [(key, value.shape) for key, value in networks["clip_l"][0].items()])
    state = networks["clip_g"][0]
    fused = open_clip_ldm_state(state)
    check_round_trip(fused, open_clip=state)
    write_list(path / "clip_g.tsv.gz", [(key, value.shape) for key, value in state.items()])
    write_list(path / "clip_g_openclip.tsv.gz", [(key, value.shape) for key, value in fused.items()])
