#!/usr/bin/env python3
"""Full-size random checkpoints and what diffusers computes with them.

    full_size.py make --family sd1 --dir /scratch/sd15     # SD1.5, 860 M UNet: 2.1 GB a container
    full_size.py make --family sdxl --dir /scratch/sdxl    # SDXL, 2.6 B UNet: 7 GB
    full_size.py containers --dir /scratch/sd15 --prepose target/release/prepose

`make` writes

- the diffusers folder itself (f16), and with --containers also DIR/single.safetensors and DIR/single.ckpt;
- DIR/expected.safetensors (f32), read by prepose's ignored full-size tests:

    text/tokens [1,77], text/last, text/penultimate (no final norm), text/pooled
    text_2/tokens, text_2/penultimate, text_2/text_embeds                               (SDXL)
    unet/small/sample [2,4,16,16], timesteps [2], context [2,77,C], out                 (+ text_embeds, time_ids)
    unet/512/sample [1,4,64,64], timesteps [1], context, out                            (SD1.5)
    vae/latents [1,4,16,16], vae/decoded [1,3,128,128], vae/image, vae/mean, vae/logvar
    txt2img/ddim/latents [1,4,16,16]: 4 steps, guidance 7.5, seed 5, 128², `case.json`  (SD1.5)

- DIR/case.json: family, prompt, seed, steps, size, and diffusers' seconds and peak memory.

`containers` makes a picture from each container with prepose and says whether they are the same, and how much memory
loading took against the size of the file.

Weights are written one tensor at a time and upcast one layer at a time, so that SDXL runs in about 8 GB.
"""

import argparse
import json
import resource
import struct
import subprocess
import time
from pathlib import Path

import reference_path  # noqa: F401  (first: sets the path)
import torch
from cases import keys
from cases.sd1 import MODEL_INDEX as SD1_INDEX
from cases.sdxl import MODEL_INDEX as SDXL_INDEX
from common import generator, silence, write_json, write_tensors
from ldm import clip_ldm_state, open_clip_ldm_state, unet_to_ldm, vae_ldm_state
from outputs import random_like
from safetensors import safe_open
from scheduler_configs import SD1, SDXL
from vocabulary import FULL_MERGES, write_tokenizer

PROMPT = "a photo of a cat on the left of a dog, highly detailed"
STEPS, SEED, SIDE = 4, 5, 128
TEXT_FILE, NETWORK_FILE = "model.safetensors", "diffusion_pytorch_model.safetensors"
CLIP_L_CONFIG = keys.FULL_CLIP_L | {"architectures": ["CLIPTextModel"], "model_type": "clip_text_model"}
CLIP_G_CONFIG = keys.FULL_CLIP_G | {"architectures": ["CLIPTextModelWithProjection"], "model_type": "clip_text_model"}
FAMILIES = {
    "sd1": {
        "index": SD1_INDEX,
        "scheduler": SD1,
        "networks": {
            "text_encoder": ("clip_l", CLIP_L_CONFIG),
            "unet": ("sd1_unet", keys.FULL_SD1_UNET),
            "vae": ("vae", keys.FULL_VAE),
        },
    },
    "sdxl": {
        "index": SDXL_INDEX,
        "scheduler": SDXL,
        "networks": {
            "text_encoder": ("clip_l", CLIP_L_CONFIG),
            "text_encoder_2": ("clip_g", CLIP_G_CONFIG),
            "unet": ("sdxl_unet", keys.FULL_SDXL_UNET),
            "vae": ("vae", keys.FULL_VAE | {"scaling_factor": 0.13025, "force_upcast": True}),
        },
    },
}


def random_weight(name, shape, rng):
    """1/sqrt(fan in) for weights, near one for norms, small for biases: activations stay finite through any depth."""
    if name.endswith("position_ids"):
        return torch.arange(shape[-1]).expand(shape)
    noise = torch.randn(shape, generator=rng)
    if "embedding" in name and name.startswith("text_model"):
        noise *= 0.05
    elif len(shape) >= 2:
        noise /= torch.Size(shape[1:]).numel() ** 0.5
    elif name.endswith("bias"):
        noise *= 0.02
    else:
        noise = 1 + noise * 0.05
    return noise.half()


def random_weights(shapes, rng):
    return lambda name: random_weight(name, shapes[name], rng)


def write_streamed(path, shapes, tensor):
    """A safetensors file written tensor by tensor, so that no network is ever whole in memory.

    A file that is there already is kept, so that an interrupted run goes on where it was.
    """
    if path.exists():
        return
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        integer = name.endswith("position_ids")
        size = torch.Size(shape).numel() * (8 if integer else 2)
        dtype = "I64" if integer else "F16"
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in shapes:
            file.write(tensor(name).contiguous().numpy().tobytes())
    partial.rename(path)


def write_folder(directory, family):
    shapes = keys.full_networks()
    write_json(directory / "model_index.json", family["index"])
    (directory / "scheduler").mkdir(exist_ok=True)
    write_json(directory / "scheduler/scheduler_config.json", family["scheduler"])
    write_tokenizer(directory / "tokenizer", FULL_MERGES)
    if "text_encoder_2" in family["networks"]:
        write_tokenizer(directory / "tokenizer_2", FULL_MERGES, pad_token="!")
    for seed, (part, (network, config)) in enumerate(family["networks"].items()):
        folder = directory / part
        folder.mkdir(exist_ok=True)
        write_json(folder / "config.json", config)
        state = {name: value.shape for name, value in shapes[network][0].items()}
        file = folder / (TEXT_FILE if part.startswith("text") else NETWORK_FILE)
        write_streamed(file, state, random_weights(state, generator(1000 + seed)))
        print(f"wrote {file} ({file.stat().st_size / 1e9:.2f} GB)", flush=True)


def open_state(folder):
    """Tensors of a network, mapped from its file."""
    file = next(folder.glob("*.safetensors"))
    with safe_open(file, "pt") as tensors:
        return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118  (no dictionary)


def ldm_state(directory, family):
    unet, vae = open_state(directory / "unet"), open_state(directory / "vae")
    text = open_state(directory / "text_encoder")
    networks = family["networks"]
    state = {ldm: unet[key] for ldm, key in unet_to_ldm(unet, networks["unet"][1]).items()}
    state |= vae_ldm_state(vae, networks["vae"][1])
    if "text_encoder_2" not in networks:
        return state | clip_ldm_state(text, "cond_stage_model.transformer.")
    state |= clip_ldm_state(text, "conditioner.embedders.0.transformer.")
    return state | open_clip_ldm_state(open_state(directory / "text_encoder_2"))


def write_containers(directory, family):
    state = ldm_state(directory, family)
    shapes = {name: value.shape for name, value in state.items()}
    write_streamed(directory / "single.safetensors", shapes, lambda name: state[name])
    contiguous = {name: value.contiguous() for name, value in state.items()}
    torch.save({"global_step": 1, "state_dict": contiguous}, directory / "single.ckpt")
    print("wrote single.safetensors and single.ckpt", flush=True)


def upcast_layer_by_layer(model):
    """Computes in f32 with weights kept in f16: each layer's weights are f32 only while it runs.

    f16 → f32 → f16 is lossless, so the weights do not change.
    """

    def to(dtype):
        def hook(module, *_):
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.to(dtype)

        return hook

    for module in model.modules():
        if any(True for _ in module.parameters(recurse=False)):
            module.register_forward_pre_hook(to(torch.float32))
            module.register_forward_hook(to(torch.float16))
    return model


def load(kind, folder, low_memory):
    model = kind.from_pretrained(folder, dtype=torch.float16 if low_memory else torch.float32)
    return upcast_layer_by_layer(model) if low_memory else model


def text_outputs(directory, low_memory, sdxl):
    from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

    def tokens(name):
        tokenizer = CLIPTokenizer.from_pretrained(directory / name)
        options = {"padding": "max_length", "max_length": 77, "truncation": True, "return_tensors": "pt"}
        return tokenizer(PROMPT, **options).input_ids

    ids = tokens("tokenizer")
    out = load(CLIPTextModel, directory / "text_encoder", low_memory)(ids, output_hidden_states=True)
    tensors = {"text/tokens": ids, "text/last": out.last_hidden_state, "text/pooled": out.pooler_output}
    tensors["text/penultimate"] = out.hidden_states[-2]
    if sdxl:
        ids = tokens("tokenizer_2")
        model = load(CLIPTextModelWithProjection, directory / "text_encoder_2", low_memory)
        out = model(ids, output_hidden_states=True)
        tensors |= {"text_2/tokens": ids, "text_2/penultimate": out.hidden_states[-2]}
        tensors["text_2/text_embeds"] = out.text_embeds
    return tensors


def unet_outputs(directory, low_memory, sdxl):
    from diffusers import UNet2DConditionModel

    unet = load(UNet2DConditionModel, directory / "unet", low_memory)
    width = unet.config.cross_attention_dim
    cases = {"small": (2, 16, [981, 21])} | ({} if sdxl else {"512": (1, 64, [500])})
    tensors, seconds = {}, {}
    for name, (batch, side, timesteps) in cases.items():
        inputs = {"sample": random_like((batch, 4, side, side), 1), "context": random_like((batch, 77, width), 2)}
        added = None
        if sdxl:
            ids = torch.tensor([[1024.0, 1024, 0, 0, 1024, 1024]]).repeat(batch, 1)
            added = {"text_embeds": random_like((batch, 1280), 3), "time_ids": ids}
        inputs |= {"timesteps": torch.tensor(timesteps)} | (added or {})
        start = time.time()
        out = unet(inputs["sample"], inputs["timesteps"], inputs["context"], added_cond_kwargs=added).sample
        seconds[name] = round(time.time() - start, 2)
        tensors |= {f"unet/{name}/{key}": value for key, value in (inputs | {"out": out}).items()}
        print(f"unet {name}: {seconds[name]} s, output std {out.std():.3f}", flush=True)
    return tensors, seconds


def vae_outputs(directory, low_memory):
    from diffusers import AutoencoderKL

    vae = load(AutoencoderKL, directory / "vae", low_memory)
    latents, image = random_like((1, 4, 16, 16), 4), random_like((1, 3, SIDE, SIDE), 5).clamp(-1, 1)
    posterior = vae.encode(image).latent_dist
    print("vae", flush=True)
    return {
        "vae/latents": latents,
        "vae/decoded": vae.decode(latents).sample,
        "vae/image": image,
        "vae/mean": posterior.mean,
        "vae/logvar": posterior.logvar,
    }


def pipeline_latents(directory):
    import diffusers

    pipe = diffusers.StableDiffusionPipeline.from_pretrained(directory, dtype=torch.float32)
    pipe.scheduler = diffusers.DDIMScheduler.from_config(SD1)
    request = {"num_inference_steps": STEPS, "guidance_scale": 7.5, "height": SIDE, "width": SIDE}
    return pipe(PROMPT, generator=generator(SEED), output_type="latent", **request).images


@torch.no_grad()
def write_expected(directory, name, low_memory):
    sdxl = name == "sdxl"
    tensors = text_outputs(directory, low_memory, sdxl)
    unet, seconds = unet_outputs(directory, low_memory, sdxl)
    tensors |= unet | vae_outputs(directory, low_memory)
    if not sdxl:  # the SDXL pipeline would round the conditioning to the stored type
        tensors["txt2img/ddim/latents"] = pipeline_latents(directory)
    bad = [key for key, value in tensors.items() if not torch.isfinite(value).all()]
    if bad:
        raise SystemExit(f"not finite: {bad}")
    write_tensors(directory / "expected.safetensors", tensors)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    request = {"prompt": PROMPT, "seed": SEED, "steps": STEPS, "size": SIDE, "guidance_scale": 7.5, "scheduler": "ddim"}
    info = {"family": name, "request": request, "seconds": seconds, "peak_gib": round(peak, 2)}
    write_json(directory / "case.json", info)
    print(f"wrote expected.safetensors; peak memory {peak:.1f} GiB")


def make(args):
    family = FAMILIES[args.family]
    args.dir.mkdir(parents=True, exist_ok=True)
    write_folder(args.dir, family)
    if args.containers:
        write_containers(args.dir, family)
    write_expected(args.dir, args.family, low_memory=args.low_memory or args.family == "sdxl")


def containers(args):
    """The same picture from every container, and the memory that making it took."""
    from PIL import Image

    pictures = {}
    paths = [args.dir, args.dir / "single.safetensors", args.dir / "single.ckpt"]
    for path in (path for path in paths if path.exists()):
        output = args.dir / "picture.png"
        command = [str(args.prepose), "generate", PROMPT, "--checkpoint", str(path), "--steps", "1", "--size", "64"]
        command += ["--seed", "5", "--device", "flex", "--dtype", args.dtype, "-o", str(output)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        start = time.time()
        subprocess.run(command, check=True)
        seconds = time.time() - start
        peak = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 2**20
        files = [path] if path.is_file() else list(path.glob("*/*.safetensors"))
        size = sum(file.stat().st_size for file in files) / 2**30
        pictures[path] = Image.open(output).tobytes()
        same = pictures[path] == next(iter(pictures.values()))
        print(f"{path}: {size:.2f} GiB, {seconds:.1f} s, peak (of all so far) {peak:.2f} GiB, same picture: {same}")
    if len(set(pictures.values())) != 1:
        raise SystemExit("the containers give different pictures")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("make", help="write a checkpoint and diffusers' outputs")
    command.add_argument("--family", choices=FAMILIES, required=True)
    command.add_argument("--dir", type=Path, required=True)
    command.add_argument("--containers", action="store_true", help="also single.safetensors and single.ckpt")
    command.add_argument("--low-memory", action="store_true", help="upcast layer by layer (always for SDXL)")
    command.set_defaults(run=make)
    command = commands.add_parser("containers", help="prepose on every container of a checkpoint")
    command.add_argument("--dir", type=Path, required=True)
    command.add_argument("--prepose", type=Path, required=True)
    command.add_argument("--dtype", default="f32")
    command.set_defaults(run=containers)
    args = parser.parse_args()
    silence()
    args.run(args)


if __name__ == "__main__":
    main()
