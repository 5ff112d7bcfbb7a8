"""Expected outputs that SD1.x and SDXL have in common."""

import diffusers
import torch
from common import generator
from scheduler_configs import SCHEDULERS

CONTEXT = 77
PROMPTS = ["a photo of a cat on the left of a dog", "", "two red birds, a bench & 3 kites; it's a very long line " * 8]


def random_like(shape, seed, scale=1.0):
    return torch.randn(shape, generator=generator(seed)) * scale


def image_in_bytes(shape, seed):
    """A smooth-ish random picture whose values in [0, 1] are multiples of 1/255."""
    noise = torch.rand([shape[0], shape[1], shape[2] // 4, shape[3] // 4], generator=generator(seed))
    image = torch.nn.functional.interpolate(noise, size=shape[2:], mode="bilinear")
    return (image * 255).round() / 255


def token_ids(tokenizer):
    options = {"padding": "max_length", "max_length": CONTEXT, "truncation": True, "return_tensors": "pt"}
    return tokenizer(PROMPTS, **options).input_ids


def text_outputs(model, tokens, prefix):
    """Every hidden state, what is pooled, and the clip-skip variants (diffusers' count: 0 is the last layer)."""
    out = model(tokens, output_hidden_states=True)
    inner = getattr(model, "text_model", model)
    tensors = {f"{prefix}/tokens": tokens, f"{prefix}/last": out.last_hidden_state}
    if hasattr(out, "text_embeds"):
        tensors[f"{prefix}/text_embeds"] = out.text_embeds
    else:
        tensors[f"{prefix}/pooled"] = out.pooler_output
    for i, hidden in enumerate(out.hidden_states):
        tensors[f"{prefix}/hidden{i}"] = hidden
    for skip in (1, 2):
        tensors[f"{prefix}/clip_skip{skip}"] = inner.final_layer_norm(out.hidden_states[-(skip + 1)])
    return tensors


def unet_outputs(unet, cases, prefix="unet"):
    """`cases`: name → (sample, timesteps, context, added conditions or None)."""
    tensors = {}
    for name, (sample, timesteps, context, added) in cases.items():
        out = unet(sample, torch.tensor(timesteps), context, added_cond_kwargs=added).sample
        named = {"sample": sample, "timesteps": torch.tensor(timesteps), "context": context, "out": out} | (added or {})
        tensors |= {f"{prefix}/{name}/{key}": value for key, value in named.items()}
    return tensors


def vae_outputs(vae, image, latents, large_image, large_latents):
    """Plain, and tiled by diffusers' rule with the tile sizes of the configuration (sample_size)."""
    tensors = {"vae/image": image, "vae/latents": latents}
    tensors |= {"vae/large_image": large_image, "vae/large_latents": large_latents}
    for name, picture in (("", image), ("large_", large_image)):
        posterior = vae.encode(picture).latent_dist
        tensors |= {f"vae/{name}mean": posterior.mean, f"vae/{name}logvar": posterior.logvar}
    tensors["vae/decoded"] = vae.decode(latents).sample
    tensors["vae/large_decoded"] = vae.decode(large_latents).sample
    vae.enable_tiling()
    posterior = vae.encode(large_image).latent_dist
    tensors |= {"vae/tiled_mean": posterior.mean, "vae/tiled_logvar": posterior.logvar}
    tensors["vae/tiled_decoded"] = vae.decode(large_latents).sample
    vae.disable_tiling()
    return tensors


def with_scheduler(pipe, name, config):
    kind, arguments = SCHEDULERS[name]
    pipe.scheduler = getattr(diffusers, kind).from_config(config, **arguments)


def run_pipeline(pipe, prefix, tensors, **arguments):
    """Final latents, and the latents after each step."""
    steps = []

    def keep(_pipe, _step, _timestep, values):
        steps.append(values["latents"].clone())
        return {}

    final = pipe(output_type="latent", callback_on_step_end=keep, **arguments).images
    tensors[f"{prefix}/steps"] = torch.stack(steps)
    tensors[f"{prefix}/latents"] = final


def relative_error(value, reference):
    """Largest absolute difference over the largest absolute value."""
    return float((value.double() - reference.double()).abs().max() / reference.double().abs().max().clamp_min(1e-30))


def check_against_f64(tensors, compute_f64, limit=3e-5):
    """Guards the fixture itself: if f32 and f64 part ways, no other implementation can be held to 1e-4 either."""
    reference = compute_f64()
    errors = {name: relative_error(tensors[name], reference[name]) for name in tensors if name in reference}
    worst = max(errors, key=errors.get)
    print(f"  f32 against f64: largest relative deviation {errors[worst]:.1e} in {worst}")
    if errors[worst] > limit:
        raise SystemExit(f"{worst} is too sensitive to rounding for a fixture")
    return errors[worst]
