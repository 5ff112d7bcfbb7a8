"""`fixtures/sd2-tiny/`: a diffusers folder of SD2.x's shape, which predicts v."""

import diffusers
import torch
from cases.sd1 import MODEL_INDEX
from cases.single_file import MINI_TEXT, MINI_UNET, MINI_VAE, networks, write_folder
from common import case_dir, generator, write_case
from networks import TINY_MERGES
from outputs import check_against_f64, random_like
from safetensors.torch import save_file
from scheduler_configs import SD1
from vocabulary import write_tokenizer

# Heads of one width at every level, projections as linear layers; OpenCLIP's exact GELU.
SD2_UNET = MINI_UNET | {
    "attention_head_dim": [1, 2],
    "cross_attention_dim": 24,
    "upcast_attention": True,
    "use_linear_projection": True,
}
SD2_TEXT = MINI_TEXT | {"hidden_act": "gelu", "hidden_size": 24, "intermediate_size": 48}
SCHEDULER = {key: value for key, value in SD1.items() if key != "skip_prk_steps"}
SCHEDULER |= {"_class_name": "DDIMScheduler", "prediction_type": "v_prediction"}
REQUEST = {
    "prompt": "a photo of a cat on the left of a dog",
    "negative_prompt": "blurry, bad",
    "num_inference_steps": 10,
    "guidance_scale": 7.5,
    "height": 16,
    "width": 24,
}
SEED = 5
# A short text and one that fills its context: padding is token 0, and is attended to.
TOKENS = torch.tensor([[998, *range(300, 320), 999, *[0] * 55], [998, *range(400, 475), 999]])


@torch.no_grad()
def expected(path, dtype=torch.float32):
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(path, dtype=dtype)
    pipe.set_progress_bar_config(disable=True)
    hidden = pipe.text_encoder(TOKENS).last_hidden_state
    sample = random_like((1, 4, 8, 8), 71).to(dtype)
    out = pipe.unet(sample, torch.tensor([321]), hidden[:1]).sample
    tensors = {"text/tokens": TOKENS[:1], "text/last": hidden[:1], "long/tokens": TOKENS[1:], "long/last": hidden[1:]}
    tensors |= {"unet/sample": sample, "unet/out": out}
    vae = pipe.vae
    latents, image = random_like((1, 4, 6, 8), 72).to(dtype), random_like((1, 3, 12, 16), 73).clamp(-1, 1).to(dtype)
    tensors |= {"vae/latents": latents, "vae/decoded": vae.decode(latents).sample}
    tensors |= {"vae/image": image, "vae/mean": vae.encode(image).latent_dist.mean}
    noise = torch.randn((1, 4, 8, 12), generator=generator(SEED)).to(dtype)
    for name, kind in (("v", "v_prediction"), ("epsilon", "epsilon")):
        pipe.scheduler = diffusers.DDIMScheduler.from_config(SCHEDULER, prediction_type=kind)
        tensors[f"txt2img/{name}/latents"] = pipe(output_type="latent", latents=noise, **REQUEST).images
    final = tensors["txt2img/v/latents"] / vae.config.scaling_factor
    tensors["txt2img/v/picture"] = (vae.decode(final).sample / 2 + 0.5).clamp(0, 1)
    return tensors


def write_safetensors(folder, state, text):
    save_file(state, folder / ("model.safetensors" if text else "diffusion_pytorch_model.safetensors"))


def make():
    path = case_dir("sd2-tiny")
    nets = networks(111, SD2_UNET, MINI_VAE, {"text_encoder": SD2_TEXT})
    write_folder(path, nets, MODEL_INDEX | {"scheduler": ["diffusers", "DDIMScheduler"]}, SCHEDULER, write_safetensors)
    write_tokenizer(path / "tokenizer", TINY_MERGES, pad_token="!")
    tensors = expected(path)
    deviation = check_against_f64(tensors, lambda: expected(path, torch.float64))
    info = {"request": REQUEST, "seed": SEED, "largest_relative_deviation_from_f64": float(f"{deviation:.1e}")}
    write_case("sd2-tiny", tensors, info, path)
