"""`fixtures/sd1-tiny/`: a diffusers folder of SD1.5's shape, in the layout and key names of the published repository."""

import diffusers
import torch
from common import case_dir, generator, write_case, write_json
from networks import (
    TINY_MERGES,
    TINY_VOCABULARY,
    build_text_encoder,
    build_unet,
    build_vae,
    classic_text_state,
    deprecated_vae_attention,
    save_network,
)
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
from scheduler_configs import SCHEDULERS, SD1
from vocabulary import write_tokenizer

# The keys that SD1.5's own config.json files have, no more: the rest must come from the library's defaults.
UNET = {
    "_class_name": "UNet2DConditionModel",
    "_diffusers_version": "0.10.0",
    "act_fn": "silu",
    "attention_head_dim": 4,  # for SD1.x this is the *number* of heads
    "block_out_channels": [16, 32, 32],
    "center_input_sample": False,
    "cross_attention_dim": 32,
    "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
    "downsample_padding": 1,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 2,
    "mid_block_scale_factor": 1,
    "norm_eps": 1e-05,
    "norm_num_groups": 8,
    "out_channels": 4,
    "sample_size": 8,
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
}
VAE = {
    "_class_name": "AutoencoderKL",
    "_diffusers_version": "0.10.0",
    "act_fn": "silu",
    "block_out_channels": [16, 16, 32],
    "down_block_types": ["DownEncoderBlock2D"] * 3,
    "in_channels": 3,
    "latent_channels": 4,
    "layers_per_block": 1,
    "norm_num_groups": 8,
    "out_channels": 3,
    "sample_size": 32,
    "up_block_types": ["UpDecoderBlock2D"] * 3,
}
TEXT = {
    "architectures": ["CLIPTextModel"],
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "dropout": 0.0,
    "eos_token_id": 2,  # wrong in SD1.5's file too; means "pool at the largest token id"
    "hidden_act": "quick_gelu",
    "hidden_size": 32,
    "initializer_factor": 1.0,
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 77,
    "model_type": "clip_text_model",
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "pad_token_id": 1,
    "projection_dim": 32,
    "torch_dtype": "float16",
    "vocab_size": TINY_VOCABULARY,
}
MODEL_INDEX = {
    "_class_name": "StableDiffusionPipeline",
    "_diffusers_version": "0.10.0",
    "feature_extractor": [None, None],
    "safety_checker": [None, None],
    "scheduler": ["diffusers", "PNDMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}
REQUEST = {
    "prompt": "a photo of a cat on the left of a dog",
    "negative_prompt": "blurry, bad",
    "num_inference_steps": 10,
    "guidance_scale": 7.5,
}
SIZE = {"height": 32, "width": 48}
SEED, SECOND_SEED, STRENGTH = 5, 6, 0.6


def write_checkpoint(path):
    write_json(path / "model_index.json", MODEL_INDEX)
    (path / "scheduler").mkdir()
    write_json(path / "scheduler/scheduler_config.json", SD1)
    write_tokenizer(path / "tokenizer", TINY_MERGES)
    text = build_text_encoder(TEXT, seed=11)
    save_network(path / "text_encoder", TEXT, classic_text_state(text, position_ids=True), "model.safetensors")
    save_network(path / "unet", UNET, build_unet(UNET, seed=12).state_dict())
    save_network(path / "vae", VAE, deprecated_vae_attention(build_vae(VAE, seed=13).state_dict()))


def unet_cases(dtype):
    def x(*shape, seed):
        return random_like(shape, seed).to(dtype)

    return {
        "batch2": (x(2, 4, 8, 12, seed=21), [981, 21], x(2, 77, 32, seed=22), None),
        "float_timestep": (x(1, 4, 8, 8, seed=23), [333.25], x(1, 77, 32, seed=24), None),
        "first_step": (x(1, 4, 8, 8, seed=23), [0], x(1, 77, 32, seed=24), None),
        # Not divisible by 4: the up path must return to the sizes that the down path rounded up from.
        "odd_size": (x(1, 4, 9, 10, seed=25), [500], x(1, 77, 32, seed=26), None),
        "two_chunks": (x(1, 4, 8, 8, seed=23), [500], x(1, 154, 32, seed=27), None),
    }


@torch.no_grad()
def expected(path, dtype=torch.float32):
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(path, dtype=dtype)
    pipe.set_progress_bar_config(disable=True)
    # diffusers' clip_skip looks for `text_model`, which transformers 5 no longer has.
    object.__setattr__(pipe.text_encoder, "text_model", pipe.text_encoder)

    def image(*shape, seed):
        return (image_in_bytes(shape, seed) * 2 - 1).to(dtype)

    tensors = text_outputs(pipe.text_encoder, token_ids(pipe.tokenizer), "text")
    tensors |= unet_outputs(pipe.unet, unet_cases(dtype))
    tensors |= vae_outputs(
        pipe.vae,
        image=image(2, 3, 32, 48, seed=31),
        latents=random_like((2, 4, 8, 12), 32).to(dtype),
        large_image=image(1, 3, 56, 76, seed=33),
        large_latents=random_like((1, 4, 14, 19), 34).to(dtype),
    )
    tensors |= text_to_image(pipe)
    tensors |= image_to_image(pipe)
    return tensors


def text_to_image(pipe):
    tensors = {}
    # f64 draws differ from f32 ones, so the deterministic schedulers get their start explicitly.
    noise = torch.randn((1, 4, 8, 12), generator=generator(SEED))
    ancestral = ("euler_a", "lcm") if pipe.unet.dtype == torch.float32 else ()
    for name in ("ddim", "pndm", "euler", "dpmpp_2m", "dpmpp_2m_karras", "unipc", *ancestral):
        with_scheduler(pipe, name, SD1)
        arguments = dict(REQUEST, **SIZE)
        if name in ancestral:
            arguments["generator"] = generator(SEED)
        else:
            arguments["latents"] = noise.to(pipe.unet.dtype)
        run_pipeline(pipe, f"txt2img/{name}", tensors, **arguments)
    if pipe.unet.dtype == torch.float32:
        tensors |= batches(pipe, tensors)
    latents = tensors["txt2img/ddim/latents"]
    decoded = pipe.vae.decode(latents / pipe.vae.config.scaling_factor).sample
    tensors["txt2img/ddim/picture"] = (decoded / 2 + 0.5).clamp(0, 1)
    with_scheduler(pipe, "ddim", SD1)
    # In diffusers clip_skip concerns the prompt only; the negative prompt keeps the last layer.
    arguments = dict(REQUEST, latents=noise.to(pipe.unet.dtype), clip_skip=1, **SIZE)
    run_pipeline(pipe, "txt2img/ddim_clip_skip1", tensors, **arguments)
    arguments = dict(REQUEST, latents=noise.to(pipe.unet.dtype), guidance_scale=1.0, **SIZE)
    run_pipeline(pipe, "txt2img/ddim_no_guidance", tensors, **arguments)
    return tensors


def batches(pipe, single):
    """Two pictures in one batch, each with its own generator; the second has the seed of the single picture."""
    tensors = {}
    for name in ("ddim", "euler_a"):
        with_scheduler(pipe, name, SD1)
        arguments = dict(REQUEST, num_images_per_prompt=2, generator=[generator(SECOND_SEED), generator(SEED)], **SIZE)
        run_pipeline(pipe, f"txt2img/{name}_batch", tensors, **arguments)
        error = (tensors[f"txt2img/{name}_batch/latents"][1:] - single[f"txt2img/{name}/latents"]).abs().max()
        print(f"  {name}: batch position changes the latents by {error:.1e}")
    return tensors


def image_to_image(pipe):
    """The generator's first draw samples the posterior, the second is the noise that is added."""
    if pipe.unet.dtype != torch.float32:
        return {}
    tensors = {"img2img/image": image_in_bytes((1, 3, 32, 48), 35)}
    pipe = diffusers.StableDiffusionImg2ImgPipeline(**pipe.components, requires_safety_checker=False)
    pipe.set_progress_bar_config(disable=True)
    for name in SCHEDULERS:
        with_scheduler(pipe, name, SD1)
        arguments = dict(REQUEST, image=tensors["img2img/image"], strength=STRENGTH)
        run_pipeline(pipe, f"img2img/{name}", tensors, generator=generator(SEED), **arguments)
    return tensors


def make():
    path = case_dir("sd1-tiny")
    write_checkpoint(path)
    tensors = expected(path)
    deviation = check_against_f64(tensors, lambda: expected(path, torch.float64))
    info = {
        "request": REQUEST | SIZE,
        "seed": SEED,
        "batch_seeds": [SECOND_SEED, SEED],
        "img2img_strength": STRENGTH,
        "text_prompts": PROMPTS,
        "largest_relative_deviation_from_f64": float(f"{deviation:.1e}"),
    }
    write_case("sd1-tiny", tensors, info, path)
