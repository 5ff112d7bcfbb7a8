"""`fixtures/sdxl-tiny/`: a diffusers folder of SDXL's shape, in the layout of the published repository's f16 variant."""

import diffusers
import torch
from cases.sd1 import TEXT as SD1_TEXT
from cases.sd1 import VAE as SD1_VAE
from common import case_dir, generator, write_case, write_json
from networks import TINY_MERGES, build_text_encoder, build_unet, build_vae, classic_text_state, save_network
from outputs import (
    PROMPTS,
    check_against_f64,
    image_in_bytes,
    random_like,
    run_pipeline,
    text_outputs,
    token_ids,
    unet_outputs,
    vae_outputs,
    with_scheduler,
)
from scheduler_configs import SDXL
from vocabulary import write_tokenizer

UNET = {
    "_class_name": "UNet2DConditionModel",
    "_diffusers_version": "0.19.0.dev0",
    "act_fn": "silu",
    "addition_embed_type": "text_time",
    "addition_embed_type_num_heads": 64,
    "addition_time_embed_dim": 8,
    "attention_head_dim": [2, 4, 4],  # heads per level
    "block_out_channels": [16, 32, 32],
    "center_input_sample": False,
    "class_embed_type": None,
    "class_embeddings_concat": False,
    "conv_in_kernel": 3,
    "conv_out_kernel": 3,
    "cross_attention_dim": 80,
    "cross_attention_norm": None,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "downsample_padding": 1,
    "dual_cross_attention": False,
    "encoder_hid_dim": None,
    "encoder_hid_dim_type": None,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 2,
    "mid_block_only_cross_attention": None,
    "mid_block_scale_factor": 1,
    "mid_block_type": "UNetMidBlock2DCrossAttn",
    "norm_eps": 1e-05,
    "norm_num_groups": 8,
    "num_attention_heads": None,
    "num_class_embeds": None,
    "only_cross_attention": False,
    "out_channels": 4,
    "projection_class_embeddings_input_dim": 88,  # 40 pooled + 6 time ids × 8
    "resnet_out_scale_factor": 1.0,
    "resnet_skip_time_act": False,
    "resnet_time_scale_shift": "default",
    "sample_size": 8,
    "time_cond_proj_dim": None,
    "time_embedding_act_fn": None,
    "time_embedding_dim": None,
    "time_embedding_type": "positional",
    "timestep_post_act": None,
    "transformer_layers_per_block": [1, 1, 2],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "upcast_attention": None,
    "use_linear_projection": True,
}
VAE = SD1_VAE | {"_diffusers_version": "0.20.0.dev0", "scaling_factor": 0.13025, "force_upcast": True}
TEXT = SD1_TEXT
TEXT_2 = SD1_TEXT | {
    "architectures": ["CLIPTextModelWithProjection"],
    "hidden_act": "gelu",
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    # 1280 × 1280 in SDXL; not square here, so that a transposed projection has the wrong shape.
    "projection_dim": 40,
}
MODEL_INDEX = {
    "_class_name": "StableDiffusionXLPipeline",
    "_diffusers_version": "0.19.0.dev0",
    "force_zeros_for_empty_prompt": True,
    "add_watermarker": None,
    "scheduler": ["diffusers", "EulerDiscreteScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "tokenizer_2": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}
REQUEST = {
    "prompt": "a photo of a cat on the left of a dog",
    "negative_prompt": "blurry, bad",
    "num_inference_steps": 10,
    "guidance_scale": 5.0,
}
SIZE = {"height": 32, "width": 48}
SEED, STRENGTH = 5, 0.6
NETWORK_FILE, TEXT_FILE = "diffusion_pytorch_model.fp16.safetensors", "model.fp16.safetensors"


def write_checkpoint(path):
    write_json(path / "model_index.json", MODEL_INDEX)
    (path / "scheduler").mkdir()
    write_json(path / "scheduler/scheduler_config.json", SDXL)
    write_tokenizer(path / "tokenizer", TINY_MERGES)
    write_tokenizer(path / "tokenizer_2", TINY_MERGES, pad_token="!")
    # As transformers 5 saves it: no `text_model.` before the keys.
    text = build_text_encoder(TEXT, seed=41)
    save_network(path / "text_encoder", TEXT, text.state_dict(), TEXT_FILE)
    text_2 = build_text_encoder(TEXT_2, seed=42, projection=True)
    save_network(path / "text_encoder_2", TEXT_2, classic_text_state(text_2, position_ids=False), TEXT_FILE)
    save_network(path / "unet", UNET, build_unet(UNET, seed=43).state_dict(), NETWORK_FILE)
    save_network(path / "vae", VAE, build_vae(VAE, seed=44).state_dict(), NETWORK_FILE)


def unet_cases(dtype):
    def x(*shape, seed):
        return random_like(shape, seed).to(dtype)

    def added(batch, *time_ids):
        return {"text_embeds": x(batch, 40, seed=59), "time_ids": torch.tensor(time_ids, dtype=dtype)}

    ids, other = [32, 48, 0, 0, 32, 48], [1024, 768, 16, 8, 512, 640]
    return {
        "batch2": (x(2, 4, 8, 12, seed=51), [981, 21], x(2, 77, 80, seed=52), added(2, ids, other)),
        "float_timestep": (x(1, 4, 8, 8, seed=53), [333.25], x(1, 77, 80, seed=54), added(1, ids)),
        "odd_size": (x(1, 4, 9, 10, seed=55), [500], x(1, 77, 80, seed=56), added(1, other)),
    }


@torch.no_grad()
def expected(path, dtype=torch.float32):
    pipe = diffusers.StableDiffusionXLPipeline.from_pretrained(path, dtype=dtype, variant="fp16", add_watermarker=False)
    pipe.set_progress_bar_config(disable=True)

    def image(*shape, seed):
        return (image_in_bytes(shape, seed) * 2 - 1).to(dtype)

    tensors = text_outputs(pipe.text_encoder, token_ids(pipe.tokenizer), "text")
    tensors |= text_outputs(pipe.text_encoder_2, token_ids(pipe.tokenizer_2), "text_2")
    tensors |= unet_outputs(pipe.unet, unet_cases(dtype))
    tensors |= vae_outputs(
        pipe.vae,
        image=image(1, 3, 32, 48, seed=61),
        latents=random_like((1, 4, 8, 12), 62).to(dtype),
        large_image=image(1, 3, 32, 76, seed=63),
        large_latents=random_like((1, 4, 8, 19), 64).to(dtype),
    )
    names = ("prompt_embeds", "negative_prompt_embeds", "pooled", "negative_pooled")
    request = {"prompt": REQUEST["prompt"], "negative_prompt": REQUEST["negative_prompt"]}
    tensors |= {f"conditioning/{name}": value for name, value in zip(names, pipe.encode_prompt(**request))}
    return tensors | text_to_image(pipe) | image_to_image(pipe)


def text_to_image(pipe):
    tensors = {}
    # f64 draws differ from f32 ones, so the deterministic schedulers get their start explicitly.
    noise = torch.randn((1, 4, 8, 12), generator=generator(SEED)).to(pipe.unet.dtype)
    for name in ("euler", "ddim", "dpmpp_2m_karras"):
        with_scheduler(pipe, name, SDXL)
        run_pipeline(pipe, f"txt2img/{name}", tensors, latents=noise, **REQUEST, **SIZE)
    # Without a negative prompt SDXL's embeddings are zeros (`force_zeros_for_empty_prompt`), not those of "".
    with_scheduler(pipe, "euler", SDXL)
    for name, negative in (("no_negative", None), ("empty_negative", "")):
        arguments = dict(REQUEST, latents=noise, negative_prompt=negative, **SIZE)
        run_pipeline(pipe, f"txt2img/euler_{name}", tensors, **arguments)
    latents = tensors["txt2img/euler/latents"]
    decoded = pipe.vae.decode(latents / pipe.vae.config.scaling_factor).sample
    tensors["txt2img/euler/picture"] = (decoded / 2 + 0.5).clamp(0, 1)
    if pipe.unet.dtype == torch.float32:
        with_scheduler(pipe, "euler_a", SDXL)
        run_pipeline(pipe, "txt2img/euler_a", tensors, generator=generator(SEED), **REQUEST, **SIZE)
    return tensors


def image_to_image(pipe):
    if pipe.unet.dtype != torch.float32:
        return {}
    tensors = {"img2img/image": image_in_bytes((1, 3, 32, 48), 65)}
    pipe = diffusers.StableDiffusionXLImg2ImgPipeline(**pipe.components, add_watermarker=False)
    pipe.set_progress_bar_config(disable=True)
    for name in ("euler", "ddim"):
        with_scheduler(pipe, name, SDXL)
        arguments = dict(REQUEST, image=tensors["img2img/image"], strength=STRENGTH, generator=generator(SEED))
        run_pipeline(pipe, f"img2img/{name}", tensors, **arguments)
    return tensors


def make():
    path = case_dir("sdxl-tiny")
    write_checkpoint(path)
    tensors = expected(path)
    deviation = check_against_f64(tensors, lambda: expected(path, torch.float64))
    info = {
        "request": REQUEST | SIZE,
        "seed": SEED,
        "img2img_strength": STRENGTH,
        "text_prompts": PROMPTS,
        "largest_relative_deviation_from_f64": float(f"{deviation:.1e}"),
    }
    write_case("sdxl-tiny", tensors, info, path)
