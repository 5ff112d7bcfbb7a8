#!/usr/bin/env python3
"""CLIP, DINOv2, Depth Anything and SAM by transformers, ImageReward by its authors' package, and each by prepose in turn.
All at full size with random weights.

    towers.py --example target/release/examples/towers --scratch /scratch --json benches/results/towers.json clip-b32 sam-b

Both compute in f32 on the same prepared pictures and on as many threads; the programs take turns and the fastest run of
each counts. Exit code 1 if results differ by more than 1e-3 of their largest value.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

LIMIT = 1e-3


def dinov2(size):
    width, depth, heads = {"s": (384, 12, 6), "b": (768, 12, 12), "l": (1024, 24, 16)}[size]
    return {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads, "image_size": 518}


def build(name):
    """The network, and the height and width of what it looks at."""
    import transformers as tf

    if name == "image-reward":
        from cases.eyes_image_reward import build as build_reward

        text = {"vocab_size": 30524}
        network, _ = build_reward(text, img_size=224, patch_size=16, embed_dim=1024, depth=24, num_heads=16)
        return network, 224
    kind, size = name.split("-", 1)
    if kind == "clip":
        width, depth, heads, patch, side = {
            "b32": (768, 12, 12, 32, 224), "l14": (1024, 24, 16, 14, 224), "l14-336": (1024, 24, 16, 14, 336),
            "h14": (1280, 32, 16, 14, 224),
        }[size]  # fmt: skip
        config = tf.CLIPVisionConfig(
            hidden_size=width, num_hidden_layers=depth, num_attention_heads=heads, intermediate_size=4 * width,
            patch_size=patch, image_size=side,
        )  # fmt: skip
        return tf.CLIPVisionModelWithProjection(config), side
    if kind == "dinov2":
        return tf.Dinov2Model(tf.Dinov2Config(**dinov2(size))), 224
    if kind == "depth":
        neck, fusion = {"s": ([48, 96, 192, 384], 64), "b": ([96, 192, 384, 768], 128), "l": ([256, 512, 1024, 1024], 256)}[size]
        taps = [5, 12, 18, 24] if size == "l" else [3, 6, 9, 12]
        backbone = tf.Dinov2Config(**dinov2(size), out_indices=taps, reshape_hidden_states=False)
        config = tf.DepthAnythingConfig(
            backbone_config=backbone, reassemble_hidden_size=backbone.hidden_size, neck_hidden_sizes=neck,
            fusion_hidden_size=fusion,
        )  # fmt: skip
        return tf.DepthAnythingForDepthEstimation(config), 518
    width, depth, heads, whole = {
        "b": (768, 12, 12, [2, 5, 8, 11]), "l": (1024, 24, 16, [5, 11, 17, 23]), "h": (1280, 32, 16, [7, 15, 23, 31]),
    }[size]  # fmt: skip
    vision = {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
    vision |= {"global_attn_indexes": whole, "mlp_dim": 4 * width}
    return tf.SamModel(tf.SamConfig(vision_config=vision)), 1024


BOXES = [[100.0, 120.0, 500.0, 700.0], [0.0, 0.0, 1023.0, 600.0], [300.0, 40.0, 420.0, 90.0], [5.0, 600.0, 900.0, 1000.0]]


def tokens():
    """As many as ImageReward's texts may have."""
    import torch

    return torch.arange(101, 136)[None]


def forward(name, model, pictures):
    if name == "image-reward":
        return model.score_gard(tokens(), tokens() * 0 + 1, pictures)[:, 0]
    if name.startswith("sam"):
        return model.get_image_embeddings(pictures)
    out = model(pictures)
    if name.startswith("clip"):
        return model.vision_model(pictures).pooler_output
    return out.predicted_depth if name.startswith("depth") else out.pooler_output


def measure(name, args):
    import torch
    from common import generator, randomize
    from safetensors.torch import save_file

    torch.set_num_threads(args.threads)
    folder = Path(args.scratch) / name
    model, side = build(name)
    randomize(model, 1, 0.7)
    if name.startswith("depth"):
        model.head.conv3.bias.data.fill_(1.0)
    folder.mkdir(parents=True, exist_ok=True)
    if name == "image-reward":
        torch.save(model.state_dict(), folder / "ImageReward.pt")
    else:
        model.save_pretrained(folder)
    pictures = torch.randn((1, 3, side, side), generator=generator(2))
    given = {"pictures": pictures}
    if name == "image-reward":
        given["tokens"] = tokens().float()
    with torch.no_grad():
        out = forward(name, model, pictures)
        expected = {"out": out}
        if name.startswith("sam"):
            given["boxes"] = torch.tensor(BOXES)
            masks = model(image_embeddings=out, input_boxes=given["boxes"][None], multimask_output=True).pred_masks
            expected = {"out": out.flatten(2).transpose(1, 2), "masks": masks[0]}
    save_file(given, folder / "input.safetensors")
    save_file({key: value.contiguous() for key, value in expected.items()}, folder / "expected.safetensors")
    row = {"network": name, "side": side, "threads": args.threads, "torch": [], "prepose": []}
    for _ in range(args.rounds):
        best = float("inf")
        for _ in range(args.repeats):
            start = time.perf_counter()
            with torch.no_grad():
                # As prepose, the tower alone.
                model.vision_model(pictures) if name.startswith("clip") else forward(name, model, pictures)
            best = min(best, time.perf_counter() - start)
        row["torch"].append(round(best, 3))
        environment = os.environ | {"RAYON_NUM_THREADS": str(args.threads)}
        command = [args.example, str(folder), str(args.repeats)]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        said = json.loads(done.stdout)
        row["prepose"].append(round(said["seconds"], 3))
        row["deviations"] = [float(f"{value:.1e}") for value in said["deviations"]]
    row["ratio"] = round(min(row["prepose"]) / min(row["torch"]), 2)
    print(json.dumps(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", metavar="NETWORK", help="clip-b32, clip-l14, dinov2-l, depth-s, sam-b, …")
    parser.add_argument("--example", required=True, help="weights/examples/towers.rs, built")
    parser.add_argument("--scratch", required=True, help="a folder for weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", help="where the rows go")
    args = parser.parse_args()
    from common import silence

    silence()
    rows = [measure(name, args) for name in args.networks]
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if any(value > LIMIT for row in rows for value in row["deviations"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
