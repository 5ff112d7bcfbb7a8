"""`fixtures/ip-adapter/`: random IP-Adapters of the tiny SD1.x and SDXL of `single-file`, through diffusers."""

import math

import diffusers
import numpy as np
import torch
import transformers
from cases.eyes_towers import clip_processor, picture, save
from cases.guidance_procedures import latent_gradient
from cases.single_file import (
    MINI_SDXL_UNET,
    MINI_SDXL_VAE,
    MINI_TEXT,
    MINI_TEXT_2,
    MINI_UNET,
    MINI_VAE,
    exact_in_every_type,
    networks,
)
from common import FIXTURES, case_dir, generator, randomize, write_case
from diffusers.image_processor import IPAdapterMaskProcessor
from networks import save_state
from outputs import check_against_f64, random_like
from PIL import Image
from scheduler_configs import SD1, SDXL

# The picture encoder of both: transformers' CLIPVisionModelWithProjection.
VISION = {
    "hidden_act": "gelu",
    "hidden_size": 32,
    "image_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 2,
    "num_hidden_layers": 3,
    "patch_size": 16,
    "projection_dim": 24,
}
STATES = (VISION["image_size"] // VISION["patch_size"]) ** 2 + 1
PLUS = {"latents": 3, "width": 20, "depth": 4, "heads": 1}  # diffusers knows no other depth
TOKENS = 77
# Width and height of the pictures that are shown, made in Rust by the same formula.
PICTURES = {"first": (53, 37), "second": (30, 91)}
REQUEST = {
    "prompt": "a photo of a cat on the left of a dog",
    "negative_prompt": "blurry, bad",
    "num_inference_steps": 10,
    "guidance_scale": 7.5,
}
SIZE = {"sd1": {"height": 32, "width": 48}, "sdxl": {"height": 32, "width": 48}}
SEED = 5
LEFT = [0.0, 0.0, 0.5, 1.0]
RIGHT = [0.5, 0.0, 1.0, 1.0]
MASK = "mask.png"  # for `second`: a disc, not binary
# Name → family, adapters, pictures of each adapter, scale of each, masks of each (none: everywhere).
PIPELINES = {
    "sd1/plain": ("sd1", ["plain"], [["first"]], [0.8], None),
    "sd1/plus": ("sd1", ["plus"], [["second"]], [1.0], None),
    "sd1/full": ("sd1", ["full"], [["first"]], [0.7], None),
    "sd1/two-pictures": ("sd1", ["plus"], [["first", "second"]], [0.9], None),
    "sd1/two-adapters": ("sd1", ["plain", "plus"], [["first"], ["second"]], [0.6, 0.5], None),
    "sd1/masks": ("sd1", ["plain"], [["first", "second"]], [[1.0, 0.8]], [["left", MASK]]),
    "sd1/masked-adapters": ("sd1", ["plain", "plus"], [["first"], ["second"]], [1.0, 1.0], [["left"], ["right"]]),
    "sd1/blocks": ("sd1", ["plus"], [["first"]], [{"down": {"block_0": [0.5, 0.0]}, "up": {"block_1": [0.0, 1.5, 1.0]}}], None),
    "sdxl/plain": ("sdxl", ["plain"], [["first"]], [0.8], None),
    "sdxl/plus": ("sdxl", ["plus"], [["second"]], [1.0], None),
    "sdxl/masks": ("sdxl", ["plus"], [["first", "second"]], [[1.0, 1.0]], [["left", "right"]]),
}
GUIDANCE = {"method": "pos", "preset": "sd14-reference", "combine": "sum"}
TARGETS = [
    {"objects": [{"positions": [2]}, {"positions": [7, 8]}], "relations": [{"subject": 0, "relation": relation, "objects": [1]}], "end": 13}
    for relation in ("left of", "below")
]


def base(family):
    if family == "sd1":
        return networks(81, MINI_UNET, MINI_VAE, {"text_encoder": MINI_TEXT}), MINI_UNET
    texts = {"text_encoder": MINI_TEXT, "text_encoder_2": MINI_TEXT_2}
    return networks(91, MINI_SDXL_UNET, MINI_SDXL_VAE, texts), MINI_SDXL_UNET


def vision():
    model = transformers.CLIPVisionModelWithProjection(transformers.CLIPVisionConfig(**VISION)).float()
    return exact_in_every_type(randomize(model, 301)).eval()


def fill(shapes, seed):
    """Random values of every shape, by `randomize`'s rule, that f16 holds exactly."""
    rng = generator(seed)
    state = {}
    for name, shape in sorted(shapes.items()):
        noise = torch.randn(shape, generator=rng)
        if len(shape) >= 2:
            value = noise if name.endswith("latents") else noise / shape[-1] ** 0.5
        elif name.endswith("bias"):
            value = noise * 0.1
        else:
            value = 1 + noise * 0.2
        rounded = value.to(torch.bfloat16).to(torch.float32)
        state[name] = torch.where(rounded.abs() < 2.0**-14, 0.0, rounded)
    return state


def projector(kind, width):
    hidden, embedding = VISION["hidden_size"], VISION["projection_dim"]
    if kind == "plain":
        return {"proj.weight": [4 * width, embedding], "proj.bias": [4 * width], "norm.weight": [width], "norm.bias": [width]}
    if kind == "full":
        return {
            "proj.0.weight": [hidden, hidden],
            "proj.0.bias": [hidden],
            "proj.2.weight": [width, hidden],
            "proj.2.bias": [width],
            "proj.3.weight": [width],
            "proj.3.bias": [width],
        }
    inside, heads = PLUS["width"], 64 * PLUS["heads"]
    shapes = {
        "latents": [1, PLUS["latents"], inside],
        "proj_in.weight": [inside, hidden],
        "proj_in.bias": [inside],
        "proj_out.weight": [width, inside],
        "proj_out.bias": [width],
        "norm_out.weight": [width],
        "norm_out.bias": [width],
    }
    for i in range(PLUS["depth"]):
        for norm in ("0.norm1", "0.norm2", "1.0"):
            shapes |= {f"layers.{i}.{norm}.weight": [inside], f"layers.{i}.{norm}.bias": [inside]}
        shapes |= {
            f"layers.{i}.0.to_q.weight": [heads, inside],
            f"layers.{i}.0.to_kv.weight": [2 * heads, inside],
            f"layers.{i}.0.to_out.weight": [inside, heads],
            f"layers.{i}.1.1.weight": [4 * inside, inside],
            f"layers.{i}.1.3.weight": [inside, 4 * inside],
        }
    return shapes


def adapter(kind, unet, seed):
    """As its authors publish it: a dictionary of two."""
    width = unet.config.cross_attention_dim
    layers = {}
    for number, (name, _) in enumerate(unet.attn_processors.items()):
        if "attn2" not in name:
            continue
        module = unet.get_submodule(name.removesuffix(".processor"))
        for which in ("k", "v"):
            layers[f"{number}.to_{which}_ip.weight"] = [module.to_q.out_features, width]
    return {"image_proj": fill(projector(kind, width), seed), "ip_adapter": fill(layers, seed + 1)}


KINDS = {"plain": 311, "plus": 321, "full": 331}


def copied(state):
    return {part: {name: value.clone() for name, value in values.items()} for part, values in state.items()}


def in_f64(state, dtype):
    return {part: {name: value.to(dtype) for name, value in values.items()} for part, values in state.items()}


def load(unet, states):
    unet._load_ip_adapter_weights(states, low_cpu_mem_usage=False)


def pixels():
    """The pictures as CLIPImageProcessor makes them."""
    pictures = [Image.fromarray(picture(*size)) for size in PICTURES.values()]
    return clip_processor()(images=pictures, return_tensors="pt").pixel_values


def projected(states, unet, model, dtype):
    """Tokens of both pictures and of none, by diffusers' projectors."""
    tensors = {"pixels": pixels()}
    shown = tensors["pixels"].to(dtype)
    encoded = model(shown, output_hidden_states=True)
    nothing = model(torch.zeros_like(shown[:1]), output_hidden_states=True)
    for kind, state in states.items():
        load(unet, [in_f64(copied(state), dtype)])
        unet.to(dtype)
        project = unet.encoder_hid_proj.image_projection_layers[0]
        if kind == "plain":
            found = project(encoded.image_embeds), project(torch.zeros_like(encoded.image_embeds[:1]))
        else:
            found = project(encoded.hidden_states[-2]), project(nothing.hidden_states[-2])
        tensors[f"tokens/{kind}/pictures"], tensors[f"tokens/{kind}/none"] = found
    return tensors


def region(name, height, width):
    if name == MASK:
        y, x = np.mgrid[:height, :width]
        disc = (x - 0.6 * width) ** 2 / width**2 + (y - 0.4 * height) ** 2 / height**2
        return Image.fromarray((255 * np.clip(1.4 - 8 * disc, 0, 1)).astype(np.uint8))
    x0, y0, x1, y1 = {"left": LEFT, "right": RIGHT}[name]
    found = np.zeros([height, width], np.uint8)
    found[round(y0 * height) : round(y1 * height), round(x0 * width) : round(x1 * width)] = 255
    return Image.fromarray(found)


def masks(names, height, width):
    """As diffusers wants them: for each adapter [1, pictures, height, width]."""
    processor = IPAdapterMaskProcessor()
    found = []
    for of_adapter in names:
        of_adapter = [region(name, height, width) for name in of_adapter]
        made = processor.preprocess(of_adapter, height=height, width=width)
        found.append(made.reshape(1, made.shape[0], height, width))
    return found


def pipeline(family, nets, model):
    kind = diffusers.StableDiffusionPipeline if family == "sd1" else diffusers.StableDiffusionXLPipeline
    stored = kind.from_pretrained(FIXTURES / "single-file" / family, use_safetensors=family != "sd1")
    parts = {name: network for name, (network, _) in nets.items()}
    parts |= {name: getattr(stored, name) for name in ("tokenizer", "tokenizer_2") if hasattr(stored, name)}
    if family == "sd1":
        parts |= {"safety_checker": None, "requires_safety_checker": False}
    pipe = kind(
        **parts,
        scheduler=diffusers.DDIMScheduler.from_config(SD1 if family == "sd1" else SDXL),
        image_encoder=model,
        feature_extractor=clip_processor(),
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def show(pipe, states, case):
    """The arguments of a call with the pictures of `case`."""
    family, kinds, pictures, scales, regions = case
    load(pipe.unet, [copied(states[kind]) for kind in kinds])
    pipe.set_ip_adapter_scale(scales if len(scales) > 1 or isinstance(scales[0], list) else scales[0])
    shown = [[Image.fromarray(picture(*PICTURES[name])) for name in names] for names in pictures]
    arguments = {"ip_adapter_image": shown}
    if regions:
        arguments["cross_attention_kwargs"] = {"ip_adapter_masks": masks(regions, **SIZE[family])}
    return arguments


def pictures(pipes, states):
    tensors = {}
    for name, case in PIPELINES.items():
        family = case[0]
        pipe = pipes[family]
        arguments = show(pipe, states[family], case)
        latents = pipe(**REQUEST, **SIZE[family], output_type="latent", generator=generator(SEED), **arguments).images
        tensors[f"pipeline/{name}/latents"] = latents
    for family, name in (("sd1", "two-adapters"), ("sdxl", "masks")):
        vae = pipes[family].vae
        decoded = vae.decode(tensors[f"pipeline/{family}/{name}/latents"] / vae.config.scaling_factor).sample
        tensors[f"pipeline/{family}/{name}/picture"] = (decoded / 2 + 0.5).clamp(0, 1)
    return tensors


class Keeping:
    """An attention processor whose arguments diffusers can see."""

    def __init__(self, attend):
        self.attend = attend

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None, ip_adapter_masks=None):
        return self.attend(attn, hidden_states, encoder_hidden_states, ip_adapter_masks)


class Maps:
    """The text's probabilities of each cross-attention layer, whose output has that of the pictures as well."""

    def __init__(self, unet):
        self.maps = {}
        unet.set_attn_processor({name: self.keeping(name, unet.attn_processors[name]) for name in unet.attn_processors})

    def keeping(self, name, inner):
        def attend(attn, hidden_states, context, regions):
            shows = inner if hasattr(inner, "to_k_ip") else None
            return self.attend(name, shows, attn, hidden_states, context, regions)

        return Keeping(attend)

    def attend(self, name, inner, attn, hidden_states, context, regions):
        def heads(x):
            return x.unflatten(-1, (attn.heads, -1)).transpose(1, 2)

        def look(context, to_k, to_v):
            k, v = heads(to_k(context)), heads(to_v(context))
            probabilities = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
            return probabilities, probabilities @ v

        q = heads(attn.to_q(hidden_states))
        if inner is None:
            context = hidden_states if context is None else context
            _, found = look(context, attn.to_k, attn.to_v)
        else:
            text, shown = context
            self.maps[name.removesuffix(".processor")], found = look(text, attn.to_k, attn.to_v)
            layers = zip(shown, inner.scale, inner.to_k_ip, inner.to_v_ip, regions)
            for tokens, scales, to_k, to_v, mask in layers:
                for i, scale in enumerate(scales):
                    _, seen = look(tokens[:, i], to_k, to_v)
                    where = IPAdapterMaskProcessor.downsample(mask[:, i], 1, seen.shape[2], 1)
                    found = found + scale * seen * where.to(seen.dtype)[:, None]
        return attn.to_out[0](found.transpose(1, 2).flatten(2))


def gradient(unet, states, dtype):
    """PoS through layers that attend to two pictures with masks and to a third without: samples of 24 × 16."""
    latents = random_like([2, 4, 16, 24], 340).to(dtype)
    context = random_like([2, TOKENS, MINI_UNET["cross_attention_dim"]], 341).to(dtype)
    features = random_like([2, 2, VISION["projection_dim"]], 342).to(dtype)
    hidden = random_like([2, 1, STATES, VISION["hidden_size"]], 343).to(dtype)
    load(unet, [in_f64(copied(states[kind]), dtype) for kind in ("plain", "plus")])
    unet.to(dtype).requires_grad_(False)
    for processor in unet.attn_processors.values():
        if hasattr(processor, "scale"):
            processor.scale = [[1.0, 0.7], [0.6]]
    store = Maps(unet)
    everywhere = torch.ones([1, 1, 128, 192])
    conditioning = {
        "encoder_hidden_states": context,
        "added_cond_kwargs": {"image_embeds": [features, hidden]},
        "cross_attention_kwargs": {"ip_adapter_masks": [*masks([["left", MASK]], 128, 192), everywhere]},
    }
    each, grad = latent_gradient(unet, store, latents, 701, conditioning, TARGETS, GUIDANCE, 16)
    found = {"latents": latents, "context": context, "features": features, "hidden": hidden, "losses": each, "gradient": grad}
    return {f"gradient/{key}": value for key, value in found.items()}


def expected(dtype=torch.float32):
    model = vision().to(dtype)
    tensors, states, pipes = {}, {}, {}
    for family in ("sd1", "sdxl"):
        nets, _ = base(family)
        unet = nets["unet"][0].eval()
        states[family] = {kind: adapter(kind, unet, seed) for kind, seed in KINDS.items() if family == "sd1" or kind != "full"}
        if dtype == torch.float32:
            pipes[family] = pipeline(family, nets, model)
        with torch.no_grad():
            found = projected(states[family], unet, model, dtype)
        tensors |= {f"{family}/{name}": value for name, value in found.items() if family == "sd1" or name != "pixels"}
    if pipes:
        with torch.no_grad():
            tensors |= pictures(pipes, states)
    for height, width, side in ((32, 48, 6), (64, 48, 48), (40, 56, 70), (128, 192, 384), (128, 192, 96)):
        mask = masks([[MASK]], height, width)[0]
        tensors[f"mask/{height}x{width}/{side}"] = IPAdapterMaskProcessor.downsample(mask[:, 0], 1, side, 1)
    return tensors | gradient(base("sd1")[0]["unet"][0].eval(), states["sd1"], dtype)


def make():
    path = case_dir("ip-adapter")
    for family in ("sd1", "sdxl"):
        unet = base(family)[0]["unet"][0]
        for kind, seed in KINDS.items():
            if family == "sdxl" and kind == "full":
                continue
            state = adapter(kind, unet, seed)
            flat = {f"{part}.{name}": value for part, values in state.items() for name, value in values.items()}
            save_state(path / f"{kind}_{family}.safetensors", flat)
            if (family, kind) == ("sd1", "plus"):
                half = {part: {name: value.half() for name, value in values.items()} for part, values in state.items()}
                torch.save(half, path / f"{kind}_{family}.bin")
    model = vision()
    save(model, path / "image_encoder")
    for name, size in PICTURES.items():
        Image.fromarray(picture(*size)).save(path / f"{name}.png")
    region(MASK, **SIZE["sd1"]).save(path / MASK)
    tensors = expected()
    deviation = check_against_f64(tensors, lambda: expected(torch.float64))
    keys = ("family", "adapters", "pictures", "scales", "regions")
    info = {
        "request": REQUEST | SIZE["sd1"],
        "seed": SEED,
        "pipelines": {name: dict(zip(keys, case)) for name, case in PIPELINES.items()},
        "guidance": {"config": GUIDANCE, "targets": TARGETS},
        "largest_relative_deviation_from_f64": float(f"{deviation:.1e}"),
    }
    write_case("ip-adapter", tensors, info, path)
