"""From diffusers' key names to those of single-file LDM checkpoints (the way back is what prepose does).

Checked against diffusers' own converters, which go the other way, in `check_round_trip`.
"""

import re

import torch
from diffusers.loaders import single_file_utils

RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
UNET_ENDS = {
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "conv_in": "input_blocks.0.0",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}


def unet_key(key, layers):
    """LDM counts the blocks of all levels in one row: conv_in, then per level `layers` blocks and a downsampler."""
    module, parameter = key.rsplit(".", 1)
    if module in UNET_ENDS:
        return f"{UNET_ENDS[module]}.{parameter}"
    match = re.fullmatch(r"(down_blocks|up_blocks|mid_block)\.(?:(\d+)\.)?(\w+)\.(\d+)\.(.+)", key)
    part, level, kind, index, rest = match.group(1), int(match.group(2) or 0), *match.group(3, 4, 5)
    index = int(index)
    if kind == "resnets":
        name, parameter = rest.rsplit(".", 1)
        rest = f"{RESNET[name]}.{parameter}"
    if part == "mid_block":
        position = {("resnets", 0): 0, ("attentions", 0): 1, ("resnets", 1): 2}[kind, index]
        return f"middle_block.{position}.{rest}"
    if part == "down_blocks":
        if kind == "downsamplers":
            return f"input_blocks.{(level + 1) * (layers + 1)}.0.{rest.replace('conv', 'op')}"
        return f"input_blocks.{level * (layers + 1) + index + 1}.{0 if kind == 'resnets' else 1}.{rest}"
    if kind == "upsamplers":
        # After the attention where the level has one: `.2.`, else `.1.`; decided by the caller.
        return f"output_blocks.{level * (layers + 1) + layers}.UP.{rest}"
    return f"output_blocks.{level * (layers + 1) + index}.{0 if kind == 'resnets' else 1}.{rest}"


def unet_to_ldm(state, config):
    """Returns {ldm key: diffusers key}."""
    names = {}
    for key in state:
        ldm = unet_key(key, config["layers_per_block"])
        if ".UP." in ldm:
            level = int(key.split(".")[1])
            has_attention = any(k.startswith(f"up_blocks.{level}.attentions.") for k in state)
            ldm = ldm.replace(".UP.", ".2." if has_attention else ".1.")
        names[f"model.diffusion_model.{ldm}"] = key
    return names


VAE_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}


def vae_to_ldm(state, config, prefix="first_stage_model."):
    """Returns {ldm key: diffusers key}. LDM counts decoder levels from the finest, diffusers from the coarsest."""
    levels = len(config["block_out_channels"])
    names = {}
    for key in state:
        ldm = key.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")
        ldm = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", ldm)
        for new, old in VAE_ATTENTION.items():
            ldm = ldm.replace(f"mid_block.attentions.0.{new}.", f"mid.attn_1.{old}.")
        ldm = re.sub(r"down_blocks\.(\d)\.resnets", r"down.\1.block", ldm)
        ldm = re.sub(r"down_blocks\.(\d)\.downsamplers\.0", r"down.\1.downsample", ldm)
        ldm = re.sub(r"up_blocks\.(\d)\.resnets", lambda m: f"up.{levels - 1 - int(m[1])}.block", ldm)
        ldm = re.sub(r"up_blocks\.(\d)\.upsamplers\.0", lambda m: f"up.{levels - 1 - int(m[1])}.upsample", ldm)
        names[prefix + ldm] = key
    return names


def vae_ldm_state(state, config, prefix="first_stage_model."):
    """LDM's attention projections are 1×1 convolutions."""
    tensors = {}
    for ldm, key in vae_to_ldm(state, config, prefix).items():
        value = state[key]
        tensors[ldm] = value[..., None, None] if ".attn_1." in ldm and value.ndim == 2 else value
    return tensors


def clip_ldm_state(state, prefix):
    """`state` with the classic `text_model.` keys."""
    return {prefix + key: value for key, value in state.items()}


def open_clip_ldm_state(state, prefix="conditioner.embedders.1.model."):
    """OpenCLIP fuses q, k, v into `in_proj` and stores the projection transposed, without a module."""
    ends = {
        "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
        "text_model.embeddings.position_embedding.weight": "positional_embedding",
        "text_model.final_layer_norm.weight": "ln_final.weight",
        "text_model.final_layer_norm.bias": "ln_final.bias",
    }
    inner = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}
    inner["self_attn.out_proj"] = "attn.out_proj"
    tensors = {}
    for key, value in state.items():
        if key in ends:
            tensors[prefix + ends[key]] = value
        elif key == "text_projection.weight":
            tensors[prefix + "text_projection"] = value.T
        elif ".q_proj." in key:
            fused = torch.cat([state[key.replace(".q_proj.", f".{x}_proj.")] for x in "qkv"])
            layer, parameter = re.fullmatch(r".*layers\.(\d+)\.self_attn\.q_proj\.(\w+)", key).groups()
            tensors[f"{prefix}transformer.resblocks.{layer}.attn.in_proj_{parameter}"] = fused
        elif ".k_proj." not in key and ".v_proj." not in key:
            layer, module, parameter = re.fullmatch(r".*layers\.(\d+)\.(.+)\.(\w+)", key).groups()
            tensors[f"{prefix}transformer.resblocks.{layer}.{inner[module]}.{parameter}"] = value
    return tensors


def check_round_trip(ldm_state, unet=None, vae=None, open_clip=None):
    """`unet`, `vae`: (state, config) in diffusers' names; `open_clip`: state. Exact equality, no key left over."""

    def same(found, wanted):
        wanted = {k: v for k, v in wanted.items() if not k.endswith("position_ids")}
        if set(found) != set(wanted):
            raise SystemExit(f"LDM names: {sorted(set(found) ^ set(wanted))[:10]}")
        for key, value in wanted.items():
            if found[key].shape != value.shape or not (value.is_meta or torch.equal(found[key].float(), value.float())):
                raise SystemExit(f"LDM names: {key} came back different")

    if unet:
        same(single_file_utils.convert_ldm_unet_checkpoint(dict(ldm_state), unet[1]), unet[0])
    if vae:
        same(single_file_utils.convert_ldm_vae_checkpoint(dict(ldm_state), vae[1]), vae[0])
    if open_clip:

        class Model:  # all the converter reads
            class config:
                hidden_size = open_clip["text_model.final_layer_norm.weight"].shape[0]

        found = single_file_utils.convert_open_clip_checkpoint(
            Model, dict(ldm_state), "conditioner.embedders.1.model."
        )
        same(found, open_clip)
