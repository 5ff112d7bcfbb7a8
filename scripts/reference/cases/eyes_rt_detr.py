"""RT-DETRv2 of transformers: two tiny networks with random weights, from their blocks to boxes with labels."""

import tempfile
from pathlib import Path

import torch
from cases.eyes_grounding import pictures, pil
from common import case_dir, generator, randomize, round_to_f16, write_json, write_tensors
from safetensors.torch import load_file, save_file

VARIANTS = {
    "basic": {"layer_type": "basic", "hidden_sizes": [8, 16, 24, 32], "depths": [2, 1, 1, 1]},
    "bottleneck": {"layer_type": "bottleneck", "hidden_sizes": [16, 24, 32, 48], "depths": [1, 2, 1, 1]},
}
EXPANSION = {"basic": 0.5, "bottleneck": 1.0}
LABELS = ["person", "sofa", "tvmonitor", "Cat", "fire hydrant"]


def build(variant, seed):
    from transformers import RTDetrV2Config, RTDetrV2ForObjectDetection
    from transformers.models.rt_detr.configuration_rt_detr_resnet import RTDetrResNetConfig

    backbone = RTDetrResNetConfig(embedding_size=8, out_features=["stage2", "stage3", "stage4"], **VARIANTS[variant])
    config = RTDetrV2Config(
        backbone_config=backbone,
        encoder_in_channels=VARIANTS[variant]["hidden_sizes"][1:],
        encoder_hidden_dim=16,
        encoder_ffn_dim=24,
        encoder_attention_heads=4,
        hidden_expansion=EXPANSION[variant],
        d_model=24,
        decoder_in_channels=[16, 16, 16],
        decoder_layers=3,
        decoder_ffn_dim=32,
        decoder_attention_heads=4,
        decoder_n_points=3 if variant == "basic" else 4,
        num_queries=12,
        num_denoising=10,
        num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)),
    )
    model = RTDetrV2ForObjectDetection(config)
    randomize(model, seed)
    rng = generator(seed + 1)
    with torch.no_grad():
        for name, value in model.named_buffers():
            if name.endswith("running_mean"):
                value.copy_(0.2 * torch.randn(value.shape, generator=rng))
            elif name.endswith("running_var"):
                value.copy_(0.5 + torch.rand(value.shape, generator=rng))
            elif name.endswith("weight") and "norm" in name:
                value.copy_(1 + 0.2 * torch.randn(value.shape, generator=rng))
            elif name.endswith("bias") and "norm" in name:
                value.copy_(0.1 * torch.randn(value.shape, generator=rng))
        for name, value in model.named_parameters():
            if "sampling_offsets.bias" in name:
                value.mul_(20)
            if "bbox_embed" in name and name.endswith("layers.2.weight"):
                value.mul_(0.5)
            # Queries of several classes.
            if "class_embed" in name or "enc_score_head" in name:
                value.mul_(5 if name.endswith("weight") else 0.2)
        for value in model.buffers():
            if value.is_floating_point():
                value.copy_(value.half().float())
    return round_to_f16(model).eval()


def trace(model, pixels):
    seen = {}

    def maps(module, inputs, out):
        seen["maps"] = [value.clone() for value, _ in out]

    hook = model.model.backbone.register_forward_hook(maps)
    out = model(pixel_values=pixels)
    hook.remove()
    tensors = {f"map{i}": value for i, value in enumerate(seen["maps"])}
    tensors |= {f"encoded{i}": value for i, value in enumerate(out.encoder_last_hidden_state)}
    tensors |= {"pixels": pixels, "chosen": out.init_reference_points.sigmoid()}
    tensors |= {"logits": out.logits, "boxes": out.pred_boxes}
    chosen = out.enc_outputs_class.max(-1).values[0].sort(descending=True).values[:13]
    return tensors, float(chosen.diff().abs().min())


def run(process, model, image):
    """What the whole pipeline finds, if nothing of it hangs by a thread."""
    inputs = process(images=pil(image), return_tensors="pt")
    tensors, gap = trace(model, inputs.pixel_values)
    scores = tensors["logits"].sigmoid().flatten().sort(descending=True).values
    if gap < 1e-3 or float(scores[:13].diff().abs().min()) < 1e-4:
        return None
    # The best twelve queries and classes are taken; of them the better ones.
    threshold = float(scores[8:10].mean())
    outputs = type("Outputs", (), {"logits": tensors["logits"], "pred_boxes": tensors["boxes"]})
    found = process.post_process_object_detection(outputs, threshold=threshold, target_sizes=[image.shape[1:]])[0]
    return {"pixels": inputs.pixel_values, "threshold": threshold, **found}


def make_one(path, variant, images, process):
    for seed in range(1, 200):
        model = build(variant, seed)
        tensors, gap = trace(model, torch.rand((2, 3, 32, 96), generator=generator(seed)))
        runs = [run(process, model, image) for image in images]
        if gap > 1e-3 and all(runs):
            break
    else:
        raise SystemExit("no seed gives steady detections")
    folder = path / variant
    folder.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        model.save_pretrained(temporary)
        state = load_file(Path(temporary) / "model.safetensors")
        (folder / "config.json").write_bytes((Path(temporary) / "config.json").read_bytes())
    state = {name: value.half() if value.is_floating_point() else value for name, value in sorted(state.items())}
    save_file({name: value.contiguous() for name, value in state.items()}, folder / "model.safetensors")
    process.save_pretrained(folder)
    for i, found in enumerate(runs):
        tensors[f"run{i}/pixels"] = found["pixels"][:, :, ::16]
        tensors |= {f"run{i}/scores": found["scores"], f"run{i}/boxes": found["boxes"]}
    write_tensors(folder / "expected.safetensors", tensors)
    labels = [[LABELS[i] for i in found["labels"]] for found in runs]
    print(f"  {variant}: seed {seed}, {labels[0]}")
    runs = [{"threshold": found["threshold"], "labels": names} for found, names in zip(runs, labels)]
    write_json(folder / "case.json", {"runs": runs})


@torch.no_grad()
def make():
    from transformers.models.rt_detr.image_processing_pil_rt_detr import RTDetrImageProcessorPil

    path = case_dir("eyes/rt-detr")
    # Those of the case "eyes/grounding-dino", which keeps them.
    process = RTDetrImageProcessorPil(size={"height": 64, "width": 64})
    for variant in VARIANTS:
        make_one(path, variant, list(pictures(3)), process)
