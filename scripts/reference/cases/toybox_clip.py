"""`fixtures/toybox-clip/`: what transformers sees in the pictures of `fixtures/toybox` with the toybox's CLIP, and a picture that diffusers
makes with its IP-Adapter."""

import json

import diffusers
import torch
import transformers
from common import FIXTURES, case_dir, generator, write_json
from PIL import Image
from scheduler_configs import SCHEDULERS

from . import toybox

# Which request of `fixtures/toybox`, and the number of the picture there that is shown.
SHOWN = {"request": 1, "picture": 5, "scale": 0.8}


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


def shown(request, picture, scale):
    """The picture of `request` by diffusers, shown another."""
    pipe = toybox.load()
    encoder = transformers.CLIPVisionModelWithProjection.from_pretrained(toybox.TOYBOX / "clip", dtype=torch.float32).eval()
    pipe.register_modules(image_encoder=encoder, feature_extractor=processor(encoder.config.image_size))
    pipe.load_ip_adapter(str(toybox.TOYBOX / "ip-adapter"), subfolder="", weight_name="ip_adapter.safetensors", image_encoder_folder=None)
    pipe.unet.float()  # the adapter's layers come in the file's f16
    pipe.set_ip_adapter_scale(scale)
    kind, arguments = SCHEDULERS[request["scheduler"]]
    pipe.scheduler = getattr(diffusers, kind).from_config(pipe.scheduler.config, **arguments)
    return pipe(
        request["prompt"],
        num_inference_steps=request["steps"],
        guidance_scale=request["guidance_scale"],
        generator=generator(request["seed"]),
        ip_adapter_image=picture,
    ).images[0]


@torch.no_grad()
def make():
    requests = json.loads((FIXTURES / "toybox/case.json").read_text())["requests"]
    pictures = [Image.open(FIXTURES / "toybox" / request["file"]).convert("RGB") for request in requests]
    path = case_dir("toybox-clip")
    made = shown(requests[SHOWN["request"]], pictures[SHOWN["picture"]], SHOWN["scale"])
    made.save(path / "shown.png", optimize=True)
    found = cosines(pictures, [request["prompt"] for request in requests])
    write_json(path / "case.json", {"cosines": found.tolist(), "shown": SHOWN})
