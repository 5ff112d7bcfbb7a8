"""The parts of a diffusers pipeline, as its folder would have them."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from prepose._errors import CheckpointError

#: What the weights of each part are called in a folder.
WEIGHTS = {
    "unet": "diffusion_pytorch_model.safetensors",
    "vae": "diffusion_pytorch_model.safetensors",
    "text_encoder": "model.safetensors",
    "text_encoder_2": "model.safetensors",
}

#: Name, type, shape, address, bytes, and the tensor itself.
Tensor = tuple[str, str, list[int], int, int, Any]


def parts(pipeline: Any) -> tuple[str, dict[str, bytes], dict[str, list[Tensor]]]:
    """A name, the texts (configurations and tokenizers) and the tensors of `pipeline`, by their paths in a folder."""
    components = getattr(pipeline, "components", None)
    if not isinstance(components, dict) or "unet" not in components or "vae" not in components:
        raise CheckpointError(
            f"a {type(pipeline).__name__} is no pipeline of Stable Diffusion: give a StableDiffusionPipeline or a StableDiffusionXLPipeline"
        )
    index = {name: value for name, value in dict(pipeline.config).items() if name not in components}
    index.update({name: _class_of(part) for name, part in components.items()})
    index["_class_name"] = type(pipeline).__name__
    name = str(pipeline.config.get("_name_or_path") or type(pipeline).__name__)
    index.update(_hints(name))
    texts = {"model_index.json": json.dumps(index, default=str).encode()}
    tensors: dict[str, list[Tensor]] = {}
    for part_name, file in WEIGHTS.items():
        part = components.get(part_name)
        if part is None:
            continue
        config = part if part_name in ("unet", "vae") else part.config
        texts[f"{part_name}/config.json"] = config.to_json_string().encode()
        tensors[f"{part_name}/{file}"] = [_tensor(key, value) for key, value in part.state_dict().items()]
    texts["scheduler/scheduler_config.json"] = pipeline.scheduler.to_json_string().encode()
    for part_name in ("tokenizer", "tokenizer_2"):
        if components.get(part_name) is not None:
            texts.update(_files(part_name, components[part_name]))
    return name, texts, tensors


def _hints(folder: str) -> dict[str, Any]:
    """What a folder says for prepose alone, and diffusers ignores: the guidance scale that it is best run with."""
    try:
        with open(os.path.join(folder, "model_index.json"), encoding="utf-8") as file:
            index = json.load(file)
    except (OSError, ValueError):
        return {}
    return {"_prepose": index["_prepose"]} if isinstance(index, dict) and "_prepose" in index else {}


def _class_of(part: Any) -> list[Any]:
    if part is None:
        return [None, None]
    return [type(part).__module__.split(".")[0], type(part).__name__]


def _tensor(key: str, tensor: Any) -> Tensor:
    # Nothing is copied where the tensor is on the CPU and in one piece.
    tensor = tensor.detach().to("cpu").contiguous()
    kind = str(tensor.dtype).removeprefix("torch.")
    return key, kind, list(tensor.shape), tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor


def _files(name: str, tokenizer: Any) -> dict[str, bytes]:
    """Tokenizers can only write themselves into a folder."""
    texts = {}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        for file in os.listdir(folder):
            if file.endswith((".json", ".txt")):
                with open(os.path.join(folder, file), "rb") as opened:
                    texts[f"{name}/{file}"] = opened.read()
    return texts
