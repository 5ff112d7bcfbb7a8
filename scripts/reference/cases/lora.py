"""`fixtures/lora/`: LoRA files in the naming systems that people have, and the networks' outputs with them merged."""

import copy

import diffusers
import torch
from common import FIXTURES, case_dir, generator, write_json, write_tensors
from ldm import unet_to_ldm
from outputs import random_like, relative_error
from safetensors.torch import save_file

RANK, ALPHA, WEIGHT = 3, 2.0, 0.8
BASES = {"sd1": diffusers.StableDiffusionPipeline, "sdxl": diffusers.StableDiffusionXLPipeline}


def load(family):
    # `sd1` holds .bin files; asking for them spares a complaint about the lack of the other kind.
    options = {"dtype": torch.float32, "use_safetensors": family == "sdxl"}
    pipe = BASES[family].from_pretrained(FIXTURES / "single-file" / family, **options)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def layers(model, want):
    """Modules with a weight that LoRA trainers adapt: linear and convolution."""
    kinds = (torch.nn.Linear, torch.nn.Conv2d)
    return {name: module for name, module in model.named_modules() if isinstance(module, kinds) and want(name)}


def attention_only(name):
    return "transformer_blocks" in name or "proj_in" in name or "proj_out" in name


def with_convolutions(name):  # what kohya's LoCon reaches
    return attention_only(name) or any(part in name for part in ("resnets", "samplers"))


def attention_projections(name):  # what the first diffusers releases trained
    return any(name.endswith(end) for end in ("to_q", "to_k", "to_v", "to_out.0"))


def text_layers(name):
    return "self_attn" in name or "mlp" in name


def pair(module, rng):
    """(down, up) in the shapes in which trainers store them: a k×k convolution down, a 1×1 up."""
    weight = module.weight
    down, up = torch.randn(RANK, *weight.shape[1:], generator=rng), torch.randn(weight.shape[0], RANK, generator=rng)
    down = down / weight[0].numel() ** 0.5
    return down.half(), (up[..., None, None] if weight.ndim == 4 else up).half() * 0.5


def product(down, up):
    return torch.einsum("or,ri...->oi...", up.flatten(1).float(), down.float())


class Adapter:
    """Pairs for every wanted layer of a pipeline's networks, and their merge."""

    def __init__(self, pipe, unet_layers, seed, alpha, text=True):
        rng = generator(seed)
        self.alpha = alpha
        self.pairs = {"unet": {n: pair(m, rng) for n, m in layers(pipe.unet, unet_layers).items()}}
        for name in ("text_encoder", "text_encoder_2"):
            model = getattr(pipe, name, None)
            if text and model is not None:
                inner = getattr(model, "text_model", model)
                self.pairs[name] = {n: pair(m, rng) for n, m in layers(inner, text_layers).items()}

    @torch.no_grad()
    def merge(self, pipe, weight):
        """W + weight · alpha / rank · up·down"""
        for network, pairs in self.pairs.items():
            model = getattr(pipe, network)
            model = getattr(model, "text_model", model) if network != "unet" else model
            for name, (down, up) in pairs.items():
                model.get_submodule(name).weight += weight * self.alpha / RANK * product(down, up)

    def kohya(self, unet_names, text_prefixes):
        tensors = {}
        for network, pairs in self.pairs.items():
            for name, (down, up) in pairs.items():
                if network == "unet":
                    key = "lora_unet_" + unet_names(name)
                else:
                    key = text_prefixes[network] + "text_model_" + name.replace(".", "_")
                tensors |= {f"{key}.lora_down.weight": down, f"{key}.lora_up.weight": up}
                tensors[f"{key}.alpha"] = torch.tensor(self.alpha, dtype=torch.float16)
        return tensors

    def diffusers(self, down_name, up_name):
        tensors = {}
        for network, pairs in self.pairs.items():
            prefix = "unet." if network == "unet" else f"{network}.text_model."
            for name, (down, up) in pairs.items():
                tensors |= {f"{prefix}{name}.{down_name}": down, f"{prefix}{name}.{up_name}": up}
        return tensors


def old_processor_names(tensors):
    """diffusers before 0.20: `…attn1.processor.to_q_lora.down.weight`, and no text encoder."""
    renamed = {}
    for key, value in tensors.items():
        for projection in ("to_q", "to_k", "to_v", "to_out.0"):
            key = key.replace(f".{projection}.lora.", f".processor.{projection.removesuffix('.0')}_lora.")
        renamed[key] = value
    return renamed


@torch.no_grad()
def outputs(pipe, family):
    tokens = torch.tensor([[998] + list(range(300, 320)) + [999] * 56])
    sample, added = random_like((1, 4, 8, 8), 71), None
    if family == "sd1":
        context = pipe.text_encoder(tokens).last_hidden_state
        tensors = {"text/last": context}
    else:
        tokens_2 = torch.tensor([[998] + list(range(300, 320)) + [999] + [0] * 55])
        first = pipe.text_encoder(tokens, output_hidden_states=True).hidden_states[-2]
        second = pipe.text_encoder_2(tokens_2, output_hidden_states=True)
        context = torch.cat([first, second.hidden_states[-2]], -1)
        added = {"text_embeds": second.text_embeds, "time_ids": torch.tensor([[32.0, 48, 0, 0, 32, 48]])}
        tensors = {"context": context, "text_embeds": second.text_embeds}
    out = pipe.unet(sample, torch.tensor([321]), context, added_cond_kwargs=added).sample
    return tensors | {"unet/out": out}


def by_diffusers(family, path):
    """The same through diffusers' own loader, or why that is not possible."""
    pipe = load(family)
    try:
        pipe.load_lora_weights(path.parent, weight_name=path.name)
        pipe.fuse_lora(lora_scale=WEIGHT)
        return outputs(pipe, family)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"


def sgm_names(pipe):
    """kohya names SDXL's UNet layers as the original code does: input_blocks, middle_block, output_blocks."""
    ldm = {key: name for name, key in unet_to_ldm(pipe.unet.state_dict(), pipe.unet.config).items()}

    def name(module):
        key = ldm[f"{module}.weight"].removeprefix("model.diffusion_model.").removesuffix(".weight")
        return key.replace(".", "_")

    return name


def flat_names(module):
    """kohya names SD1.x's layers as diffusers does."""
    return module.replace(".", "_")


def files():
    """(file, family, adapter, tensors)"""
    sd1, sdxl = load("sd1"), load("sdxl")
    te, te12 = {"text_encoder": "lora_te_"}, {"text_encoder": "lora_te1_", "text_encoder_2": "lora_te2_"}

    adapter = Adapter(sd1, with_convolutions, 101, ALPHA)
    yield "kohya-sd1", "sd1", adapter, adapter.kohya(flat_names, te)
    adapter = Adapter(sdxl, with_convolutions, 102, ALPHA)
    yield "kohya-sdxl", "sdxl", adapter, adapter.kohya(sgm_names(sdxl), te12)
    # Without alpha, alpha is the rank.
    adapter = Adapter(sd1, attention_only, 103, RANK)
    yield "diffusers-sd1", "sd1", adapter, adapter.diffusers("lora_A.weight", "lora_B.weight")
    adapter = Adapter(sdxl, attention_only, 104, RANK)
    yield "diffusers-sdxl", "sdxl", adapter, adapter.diffusers("lora_A.weight", "lora_B.weight")
    adapter = Adapter(sd1, attention_projections, 105, RANK, text=False)
    old = old_processor_names(adapter.diffusers("lora.down.weight", "lora.up.weight"))
    yield "diffusers-old-sd1", "sd1", adapter, old


def make():
    path = case_dir("lora")
    bases = {family: load(family) for family in BASES}
    expected, info, adapters = {}, {"rank": RANK, "weight": WEIGHT, "files": {}}, {}
    for file, family, adapter, tensors in files():
        save_file({k: v.contiguous() for k, v in tensors.items()}, path / f"{file}.safetensors")
        pipe = copy.deepcopy(bases[family])
        adapter.merge(pipe, WEIGHT)
        merged = outputs(pipe, family)
        change = relative_error(outputs(bases[family], family)["unet/out"], merged["unet/out"])
        theirs = by_diffusers(family, path / f"{file}.safetensors")
        if isinstance(theirs, dict):
            agreement = {key: float(f"{relative_error(theirs[key], merged[key]):.1e}") for key in merged}
        else:
            agreement = theirs
        print(f"  {file}: changes the UNet's output by {change:.2f}; diffusers differs by {agreement}")
        info["files"][file] = {"base": family, "relative_change": round(change, 3)}
        expected |= {f"{file}/{key}": value for key, value in merged.items()}
        adapters[file] = adapter

    pipe = copy.deepcopy(bases["sd1"])
    adapters["kohya-sd1"].merge(pipe, WEIGHT)
    adapters["diffusers-sd1"].merge(pipe, -0.5)
    expected |= {f"two/{key}": value for key, value in outputs(pipe, "sd1").items()}
    info["two"] = {"base": "sd1", "loras": [["kohya-sd1", WEIGHT], ["diffusers-sd1", -0.5]]}
    expected["sample"] = random_like((1, 4, 8, 8), 71)
    write_tensors(path / "expected.safetensors", expected)
    write_json(path / "case.json", info)
