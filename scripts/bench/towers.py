#!/usr/bin/env python3
"""The networks that look at pictures, at full size with random weights: by transformers (ImageReward and Inception-v3: by their authors'
packages), and each by prepose in turn.

    towers.py --example target/release/examples/towers --scratch /scratch --json benches/results/towers.json clip-b32 sam-b
    towers.py --page docs/eyes.md --json benches/results/towers.json        # the table of the page from the record

Networks: clip-b32, clip-l14, clip-l14-336, clip-h14, clip-bigg14, dinov2-s, -b, -l, depth-s, -b, -l, sam-b, -l, -h, image-reward, inception,
owl-vit, grounding-dino-tiny, -base, rtdetr-v2-r18, -r50. --json keeps the rows that it has of other networks.

Both compute in f32 on the same prepared pictures and on as many threads, in processes of their own that take turns; the fastest run of
each counts, and the most memory that a process held, with the program itself and files that it maps. Of detectors the picture's and the
text's encoders are compared, whose results decide all else (boxes: `full_size_detectors.py`). Exit code 1 if results differ by more than
1e-3 of their largest value.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

LIMIT = 1e-3
START, END = "<!-- towers -->", "<!-- /towers -->"
BOXES = [[100.0, 120.0, 500.0, 700.0], [0.0, 0.0, 1023.0, 600.0], [300.0, 40.0, 420.0, 90.0], [5.0, 600.0, 900.0, 1000.0]]
# Three questions of OWL-ViT, and a text of Grounding DINO with two phrases.
QUESTIONS = [[49406, 320, 2368, 49407], [49406, 320, 1929, 49407], [49406, 736, 2368, 49407]]
PHRASES = [101, 1037, 4937, 1012, 1037, 2543, 2021, 1012, 102]
# As many as ImageReward's texts may have.
WORDS = list(range(101, 136))


def dinov2(size):
    width, depth, heads = {"s": (384, 12, 6), "b": (768, 12, 12), "l": (1024, 24, 16)}[size]
    return {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads, "image_size": 518}


def clip(size):
    import transformers as tf

    width, depth, heads, patch, side, inner = {
        "b32": (768, 12, 12, 32, 224, 3072), "l14": (1024, 24, 16, 14, 224, 4096), "l14-336": (1024, 24, 16, 14, 336, 4096),
        "h14": (1280, 32, 16, 14, 224, 5120), "bigg14": (1664, 48, 16, 14, 224, 8192),
    }[size]  # fmt: skip
    config = tf.CLIPVisionConfig(
        hidden_size=width, num_hidden_layers=depth, num_attention_heads=heads, intermediate_size=inner, patch_size=patch, image_size=side
    )
    return tf.CLIPVisionModelWithProjection(config), side


def depth_anything(size):
    import transformers as tf

    neck, fusion = {"s": ([48, 96, 192, 384], 64), "b": ([96, 192, 384, 768], 128), "l": ([256, 512, 1024, 1024], 256)}[size]
    taps = [5, 12, 18, 24] if size == "l" else [3, 6, 9, 12]
    backbone = tf.Dinov2Config(**dinov2(size), out_indices=taps, reshape_hidden_states=False)
    config = tf.DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=backbone.hidden_size, neck_hidden_sizes=neck, fusion_hidden_size=fusion
    )
    return tf.DepthAnythingForDepthEstimation(config)


def sam(size):
    import transformers as tf

    width, depth, heads, whole = {
        "b": (768, 12, 12, [2, 5, 8, 11]), "l": (1024, 24, 16, [5, 11, 17, 23]), "h": (1280, 32, 16, [7, 15, 23, 31]),
    }[size]  # fmt: skip
    vision = {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
    vision |= {"global_attn_indexes": whole, "mlp_dim": 4 * width}
    return tf.SamModel(tf.SamConfig(vision_config=vision))


def build(name):
    """The network, and the height and width of what it looks at."""
    import transformers as tf

    if name == "image-reward":
        from cases.eyes_image_reward import build as build_reward

        network, _ = build_reward({"vocab_size": 30524}, img_size=224, patch_size=16, embed_dim=1024, depth=24, num_heads=16)
        return network, (224, 224)
    if name == "inception":
        from cases import eyes_inception

        eyes_inception.THINNER, eyes_inception.CLASSES = 1, 1008
        return eyes_inception.thin_network().eval(), (299, 299)
    if name == "owl-vit":
        return tf.OwlViTForObjectDetection(tf.OwlViTConfig()), (768, 768)
    if name.startswith(("grounding", "rtdetr")):
        import full_size_detectors

        return full_size_detectors.NETWORKS[name](), (800, 1066) if name.startswith("grounding") else (640, 640)
    kind, size = name.split("-", 1)
    if kind == "clip":
        network, side = clip(size)
        return network, (side, side)
    if kind == "dinov2":
        return tf.Dinov2Model(tf.Dinov2Config(**dinov2(size))), (224, 224)
    return (depth_anything(size), (518, 518)) if kind == "depth" else (sam(size), (1024, 1024))


def weights_file(name):
    """For networks that are no folder of transformers'."""
    return {"image-reward": "ImageReward.pt", "inception": "model.pth"}.get(name)


def prepare(name, folder):
    """Writes the network, what it is given and what comes out."""
    import torch
    from common import generator, randomize
    from safetensors.torch import save_file

    model, sides = build(name)
    randomize(model, 1, 0.7)
    if name.startswith("depth"):
        model.head.conv3.bias.data.fill_(1.0)
    folder.mkdir(parents=True, exist_ok=True)
    if file := weights_file(name):
        if name == "inception":
            from cases.eyes_inception import randomize_norms

            randomize_norms(model, 3)
        torch.save(model.state_dict(), folder / file)
    else:
        model.save_pretrained(folder)
    given = {"pictures": torch.randn((1, 3, *sides), generator=generator(2))}
    if name.startswith(("grounding", "rtdetr")):
        given["pictures"] = torch.rand((1, 3, *sides), generator=generator(2))
    if name.startswith("grounding"):
        from full_size_detectors import vocabulary

        vocabulary(folder / "vocab.txt")
    texts = {"image": [WORDS], "owl": QUESTIONS, "grounding": [PHRASES]}
    if tokens := texts.get(name.split("-")[0]):
        given["tokens"] = torch.tensor(tokens).float()
    if name.startswith("sam"):
        given["boxes"] = torch.tensor(BOXES)
    save_file(given, folder / "input.safetensors")
    del model
    model = load(name, folder)
    expected = results(name, model, given)
    save_file({key: value.contiguous() for key, value in expected.items()}, folder / "expected.safetensors")


def without_numbers(name):
    """The network on no device, so that its own numbers take no memory. ImageReward's picture encoder reads some while it is made."""
    import torch

    linspace = torch.linspace
    torch.linspace = lambda *args, **options: linspace(*args, **options | {"device": "cpu"})
    try:
        with torch.device("meta"):
            return build(name)[0]
    finally:
        torch.linspace = linspace


def load(name, folder):
    """The written network."""
    import torch
    import transformers as tf

    if file := weights_file(name):
        model = without_numbers(name)
        # What is in no file is made anew.
        state = torch.load(folder / file, mmap=True)
        model.load_state_dict(state, assign=True, strict=name == "inception")
        for path, buffer in list(model.named_buffers()):
            if buffer.is_meta:
                owner, _, last = path.rpartition(".")
                model.get_submodule(owner).register_buffer(last, torch.arange(buffer.numel()).reshape(buffer.shape), persistent=False)
        return model.eval()
    known = {
        "clip": tf.CLIPVisionModelWithProjection, "dinov2": tf.Dinov2Model, "depth": tf.DepthAnythingForDepthEstimation, "sam": tf.SamModel,
        "owl": tf.OwlViTForObjectDetection, "grounding": tf.GroundingDinoForObjectDetection, "rtdetr": tf.RTDetrV2ForObjectDetection,
    }  # fmt: skip
    return known[name.split("-")[0]].from_pretrained(folder).eval()


def forward(name, model, given):
    """What is timed."""
    pictures, tokens = given["pictures"], given.get("tokens")
    if name == "image-reward":
        return model.score_gard(tokens.long(), tokens.long() * 0 + 1, pictures)[:, 0]
    if name == "inception":
        import torch

        model.fc = torch.nn.Identity()
        return model(pictures)
    if name.startswith("owl"):
        return model(input_ids=tokens.long(), pixel_values=pictures)
    if name.startswith("grounding"):
        return model(pixel_values=pictures, input_ids=tokens.long())
    if name.startswith("rtdetr"):
        return model(pixel_values=pictures)
    if name.startswith("sam"):
        return model.get_image_embeddings(pictures)
    # As prepose, the tower alone.
    return model.vision_model(pictures) if name.startswith("clip") else model(pictures)


def results(name, model, given):
    """What is compared, by name."""
    import torch

    with torch.no_grad():
        out = forward(name, model, given)
        if name.startswith("sam"):
            masks = model(image_embeddings=out, input_boxes=given["boxes"][None], multimask_output=True).pred_masks
            return {"out": out.flatten(2).transpose(1, 2), "masks": masks[0]}
    if name.startswith("owl"):
        return {"out": out.logits, "boxes": out.pred_boxes}
    if name.startswith("grounding"):
        return {"out": out.encoder_last_hidden_state_vision, "text": out.encoder_last_hidden_state_text}
    if name.startswith("rtdetr"):
        return {f"out{i}": value for i, value in enumerate(out.encoder_last_hidden_state)}
    if name.startswith("depth"):
        return {"out": out.predicted_depth}
    return {"out": out if name in ("image-reward", "inception") else out.pooler_output}


def alone(name, folder, args):
    """PyTorch's side of a row, as a process of its own."""
    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(args.threads)
    model, given = load(name, folder), load_file(folder / "input.safetensors")
    best = float("inf")
    for _ in range(args.repeats):
        start = time.perf_counter()
        with torch.no_grad():
            forward(name, model, given)
        best = min(best, time.perf_counter() - start)
    print(json.dumps({"seconds": best, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def measure(name, args):
    folder = Path(args.scratch) / name
    own = [sys.executable, __file__, "--scratch", args.scratch, "--threads", str(args.threads), "--repeats", str(args.repeats), name]
    subprocess.run([*own, "--do", "prepare"], check=True)
    row = {"network": name, "threads": args.threads, "torch": [], "prepose": [], "torch_peak": [], "prepose_peak": []}
    environment = os.environ | {"RAYON_NUM_THREADS": str(args.threads)}
    for _ in range(args.rounds):
        for side, command in (("torch", [*own, "--do", "torch"]), ("prepose", [args.example, str(folder), str(args.repeats)])):
            done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
            said = json.loads(done.stdout.splitlines()[-1])
            row[side].append(round(said["seconds"], 3))
            row[f"{side}_peak"].append(round(said["peak"] / 1e9, 2))
        row["deviations"] = [float(f"{value:.1e}") for value in said["deviations"]]
    row["ratio"] = round(min(row["prepose"]) / min(row["torch"]), 2)
    row["memory_ratio"] = round(min(row["prepose_peak"]) / min(row["torch_peak"]), 2)
    print(json.dumps(row), flush=True)
    return row


def put_into(page, rows):
    """The table, between the page's markers."""
    lines = ["| network | seconds | PyTorch's | ratio | GB at most | PyTorch's | ratio | deviation |", "| --- |" + " ---: |" * 7]
    for row in rows:
        seconds = [f"{min(row[side]):.2f}" for side in ("prepose", "torch")]
        peaks = [f"{min(row[f'{side}_peak']):.2f}" for side in ("prepose", "torch")]
        cells = [row["network"], *seconds, f"{row['ratio']:.2f}", *peaks, f"{row['memory_ratio']:.2f}", f"{max(row['deviations']):.1e}"]
        lines.append("| " + " | ".join(cells) + " |")
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    page.write_text(f"{before}{START}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="clip-b32, clip-l14, dinov2-l, depth-s, sam-b, …")
    parser.add_argument("--example", help="weights/examples/towers.rs, built")
    parser.add_argument("--scratch", help="a folder for weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where the rows go")
    parser.add_argument("--page", type=Path, help="a page with markers for the table")
    parser.add_argument("--do", choices=["prepare", "torch"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.do:
        from common import silence

        silence()
        folder = Path(args.scratch) / args.networks[0]
        prepare(args.networks[0], folder) if args.do == "prepare" else alone(args.networks[0], folder, args)
        return
    rows = json.loads(args.json.read_text(encoding="utf-8")) if args.json and args.json.exists() else []
    for name in args.networks:
        row = measure(name, args)
        rows = [old for old in rows if old["network"] != name] + [row]
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if args.page:
        put_into(args.page, rows)
    if any(value > LIMIT for row in rows for value in row["deviations"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
