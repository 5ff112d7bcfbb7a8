"""Puts the trained parts into one diffusers folder, in f16."""

import argparse
import json
import shutil
from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file, save_file
from transformers import CLIPTextModel

import autoencoder
import denoiser
from tokenizer import load_tokenizer

RECOMMENDED_GUIDANCE_SCALE = 3.0


def as_other_checkpoints_do(out, folder):
    """Undoes two novelties of transformers 5, and tidies the configurations, so that older readers find what SD1.5 has;
    notes what prepose should know.

    Its CLIPTextModel saves keys without the prefix `text_model.` (it reads both), and its tokenizers
    save one tokenizer.json instead of vocab.json and merges.txt.
    """
    for config in folder.rglob("*config.json"):  # no paths of the machine that it was made on
        text = json.loads(config.read_text())
        text.pop("_name_or_path", None)
        config.write_text(json.dumps(text, indent=2) + "\n")
    index = folder / "model_index.json"  # diffusers passes over keys that begin with an underscore
    hints = dict(_prepose=dict(guidance_scale=RECOMMENDED_GUIDANCE_SCALE, network="toybox"))
    index.write_text(json.dumps(dict(sorted({**json.loads(index.read_text()), **hints}.items())), indent=2) + "\n")
    path = folder / "text_encoder" / "model.safetensors"
    tensors = {"text_model." + key.removeprefix("text_model."): value
               for key, value in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    for file in (folder / "tokenizer").iterdir():
        file.unlink()
    for name in ("vocab.json", "merges.txt", "special_tokens_map.json", "tokenizer_config.json"):
        shutil.copy(out / "tokenizer" / name, folder / "tokenizer" / name)


def assemble(out, folder, unet):
    vae = autoencoder.join(out, out / "vae")
    if unet:
        unet = UNet2DConditionModel.from_pretrained(unet)
    else:  # before any training: the first weights
        torch.manual_seed(0)
        unet = denoiser.new_unet()
    pipeline = StableDiffusionPipeline(
        vae=vae, unet=unet, text_encoder=CLIPTextModel.from_pretrained(out / "text_encoder"),
        tokenizer=load_tokenizer(out / "tokenizer"), scheduler=denoiser.new_scheduler(),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False)
    pipeline.to(torch.float16).save_pretrained(folder)
    as_other_checkpoints_do(out, folder)
    size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True, help="the training folder")
    parser.add_argument("--folder", type=Path, required=True, help="where the checkpoint goes")
    parser.add_argument("--unet", type=Path, help="the trained UNet's folder; without, it has its first weights")
    args = parser.parse_args()
    assemble(args.out, args.folder, args.unet)
