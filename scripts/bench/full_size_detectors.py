#!/usr/bin/env python3
"""Full-size detectors with random weights, and what transformers computes with them.

    full_size_detectors.py grounding-dino-tiny /scratch/gd     # 0.7 GB; grounding-dino-base is 0.9 GB
    full_size_detectors.py rtdetr-v2-r50 /scratch/rt           # 0.2 GB; rtdetr-v2-r18 is 0.1 GB

DIR gets `model/`, a folder as transformers writes it, and `expected.safetensors`: what goes in (`pixels`, `ids`), and `encoded`,
`encoded_text`, `chosen`, `logits` and `boxes`. The seconds of a second pass and the peak of the memory are printed. prepose's
test `full_size_detector_is_transformers` reads DIR.
"""

import argparse
import resource
import time
from pathlib import Path

import reference_path  # noqa: F401  (first: sets the path)
import torch
from common import generator, randomize, silence, write_tensors

STAGES = ["stage2", "stage3", "stage4"]
BASE = {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32], "window_size": 12}
TINY = {"embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "window_size": 7}


def grounding(backbone):
    from transformers import GroundingDinoConfig, GroundingDinoForObjectDetection, SwinConfig

    swin = SwinConfig(out_features=STAGES, **backbone)
    return GroundingDinoForObjectDetection(GroundingDinoConfig(backbone_config=swin))


def fast(**backbone):
    from transformers import RTDetrV2Config, RTDetrV2ForObjectDetection
    from transformers.models.rt_detr.configuration_rt_detr_resnet import RTDetrResNetConfig

    resnet = RTDetrResNetConfig(out_features=STAGES, **backbone)
    labels = dict(enumerate(f"thing {i}" for i in range(80)))
    config = {"backbone_config": resnet, "encoder_in_channels": resnet.hidden_sizes[1:], "id2label": labels}
    if resnet.layer_type == "basic":
        config |= {"hidden_expansion": 0.5, "decoder_layers": 3}
    model = RTDetrV2ForObjectDetection(RTDetrV2Config(**config))
    rng = generator(2)
    for name, value in model.named_buffers():
        if name.endswith("running_var"):
            value.copy_(0.5 + torch.rand(value.shape, generator=rng))
    return model


SMALL = {"layer_type": "basic", "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2]}
NETWORKS = {
    "grounding-dino-tiny": lambda: grounding(TINY),
    "grounding-dino-base": lambda: grounding(BASE),
    "rtdetr-v2-r18": lambda: fast(**SMALL),
    "rtdetr-v2-r50": lambda: fast(),
}


def vocabulary(path):
    special = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", 1012: ".", 1029: "?"}
    lines = [special.get(i, f"[unused{i}]") for i in range(30522)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--size", type=int, nargs=2, default=None, metavar=("HEIGHT", "WIDTH"))
    args = parser.parse_args()
    silence()
    model = randomize(NETWORKS[args.network](), 1).eval()
    model.save_pretrained(args.dir / "model")
    large = args.network.startswith("grounding")
    height, width = args.size or ((800, 1066) if large else (640, 640))
    inputs = {"pixel_values": torch.rand((1, 3, height, width), generator=generator(3))}
    if large:
        vocabulary(args.dir / "model" / "vocab.txt")
        inputs["input_ids"] = torch.tensor([[101, 1037, 4937, 1012, 1037, 2543, 2021, 1012, 102]])
    for _ in range(2):
        start = time.time()
        out = model(**inputs)
        seconds = time.time() - start
    tensors = {"pixels": inputs["pixel_values"], "logits": out.logits, "boxes": out.pred_boxes}
    if large:
        count = inputs["input_ids"].shape[1]
        tensors |= {"ids": inputs["input_ids"], "logits": out.logits[..., :count], "chosen": out.init_reference_points}
        tensors |= {"encoded": out.encoder_last_hidden_state_vision, "encoded_text": out.encoder_last_hidden_state_text}
    else:
        tensors |= {f"encoded{i}": value for i, value in enumerate(out.encoder_last_hidden_state)}
        tensors["chosen"] = out.init_reference_points.sigmoid()
    write_tensors(args.dir / "expected.safetensors", tensors)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{args.network}: {seconds:.2f} s, {torch.get_num_threads()} threads, {memory:.1f} GiB at most")


if __name__ == "__main__":
    main()
