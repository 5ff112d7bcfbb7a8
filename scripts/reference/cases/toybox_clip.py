"""`fixtures/toybox-clip/`: what transformers sees in the pictures of `fixtures/toybox` with the toybox's CLIP."""

import json

import torch
import transformers
from common import FIXTURES, case_dir, write_json
from PIL import Image

from . import toybox


def processor(side):
    return transformers.models.clip.image_processing_pil_clip.CLIPImageProcessorPil(
        size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    )


def cosines(pictures, texts):
    """Of each picture and its text."""
    clip = transformers.CLIPModel.from_pretrained(toybox.TOYBOX / "clip", dtype=torch.float32).eval()
    tokenizer = transformers.CLIPTokenizer.from_pretrained(toybox.TOYBOX / "tokenizer")
    pixels = processor(clip.config.vision_config.image_size)(pictures, return_tensors="pt").pixel_values
    ids = tokenizer(texts, padding="max_length", max_length=77, return_tensors="pt").input_ids
    found = clip(input_ids=ids, pixel_values=pixels)
    return (found.image_embeds * found.text_embeds).sum(1)


@torch.no_grad()
def make():
    requests = json.loads((FIXTURES / "toybox/case.json").read_text())["requests"]
    pictures = [Image.open(FIXTURES / "toybox" / request["file"]).convert("RGB") for request in requests]
    path = case_dir("toybox-clip")
    found = cosines(pictures, [request["prompt"] for request in requests])
    write_json(path / "case.json", {"cosines": found.tolist()})
