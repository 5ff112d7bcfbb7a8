"""`fixtures/rcnn/`: torchvision's four kinds of detectors in miniature, module by module and from pictures to objects."""

import torch
import torch.nn.functional as F
from common import case_dir, generator, write_json
from detectors import build, spread
from safetensors.torch import save_file

CLASSES = ["__background__", "ball", "N/A", "box", "cone", "ring"]
COMMON = {
    "fpn_channels": 16,
    "anchor_sizes": [[8], [16], [32], [64], [128]],
    "canonical_scale": 56,
    "min_size": 128,
    "max_size": 176,
    "rpn_pre_nms_top_n": 300,
    "rpn_post_nms_top_n": 200,
    "box_nms_thresh": 0.3,
    "detections_per_img": 10,
    "classes": CLASSES,
}
SMALL = {"block": "basic", "layers": [1, 1, 2, 1], "width": 8}
DEEP = {"block": "bottleneck", "layers": [1, 2, 1, 1], "width": 8}
SECOND = {
    "fpn_norm": True,
    "rpn_conv_depth": 2,
    "box_head": {"kind": "conv_fc", "conv": [16, 12], "fc": [48, 40], "norm": True},
}
CONFIGS = {
    "faster-v1": COMMON
    | {"architecture": "faster_rcnn", "backbone": SMALL | {"norm_eps": 0.0}, "box_head": {"kind": "mlp", "width": 64}},
    "faster-v2": COMMON | SECOND | {"architecture": "faster_rcnn", "backbone": DEEP | {"width_per_group": 96}},
    "mask-v1": COMMON
    | {
        "architecture": "mask_rcnn",
        "backbone": DEEP | {"returned_layers": [2, 3, 4]},
        "anchor_sizes": [[12, 16], [24, 32], [48, 64], [96, 128]],
        "aspect_ratios": [0.7, 1.4],
        "box_head": {"kind": "mlp", "width": 48},
        "mask_head": {"conv": [16, 16], "predictor": 12, "roi_size": 8},
        "detections_per_img": 6,
    },
    "mask-v2": COMMON
    | SECOND
    | {
        "architecture": "mask_rcnn",
        "backbone": SMALL | {"layers": [1, 1, 1]},
        "anchor_sizes": [[8], [16], [32], [64]],
        "mask_head": {"conv": [16, 12], "norm": True, "predictor": 12, "roi_size": 7},
        "detections_per_img": 6,
    },
}
# More than a thousand candidates go through another branch of torchvision's suppression than fewer do.
CONFIGS["faster-v2"] |= {"rpn_pre_nms_top_n": 1000, "rpn_post_nms_top_n": 500, "box_score_thresh": 0.02}
GAINS = {
    "rpn.head.cls_logits": 3.0,
    "rpn.head.bbox_pred": 0.4,
    "roi_heads.box_predictor.cls_score": 3.0,
    "roi_heads.box_predictor.bbox_pred": 1.5,
}
SIZES = [(96, 80), (70, 112), (90, 90)]


def pictures(seed):
    """Smooth random pictures in steps that f16 holds exactly."""
    rng = generator(seed)
    for height, width in SIZES:
        picture = sum(
            F.interpolate(torch.rand((1, 3, n, n), generator=rng), (height, width), mode="bicubic") for n in (4, 9, 30)
        )
        picture = (picture - picture.min()) / (picture.max() - picture.min())
        yield (picture[0] * 255).round() / 256


def same(a, b):
    """Whether two runs found the same objects in the same order, with room to spare."""
    return all(
        len(x["scores"]) == len(y["scores"])
        and (x["labels"] == y["labels"]).all()
        and (x["scores"] - y["scores"]).abs().max() < 1e-4
        and (x["boxes"] - y["boxes"]).abs().max() < 2e-2
        for x, y in zip(a, b)
    )


def steady(model, images):
    """Whether neither rounding nor a small change of the weights changes what is found, and enough is."""
    found = model(images) + model(images[:1])
    if any(len(x["scores"]) < 5 or x["scores"].diff().abs().min() < 5e-4 for x in found):
        return None
    exact = model.double()
    wide = [image.double() for image in images]
    rest = exact(wide) + exact(wide[:1])
    model.float()
    if not same(found, rest):
        return None
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.mul_(1 + 1e-6 * torch.randn(parameter.shape, generator=generator(7)))
    moved = model(images) + model(images[:1])
    model.load_state_dict(state)
    return found if same(found, moved) else None


def outputs(model, images):
    """What the model makes of the images, with what its parts hand on."""
    seen = {}

    def keep(name, value):
        seen[name] = value

    hooks = [
        model.transform.register_forward_hook(lambda m, i, o: keep("batch", o[0].tensors)),
        model.backbone.register_forward_hook(lambda m, i, o: keep("levels", list(o.values()))),
        model.rpn.register_forward_hook(lambda m, i, o: keep("proposals", o[0])),
        model.roi_heads.box_predictor.register_forward_hook(lambda m, i, o: keep("heads", o)),
    ]
    found = model(images)
    for hook in hooks:
        hook.remove()
    return found, seen


@torch.no_grad()
def make_one(path, config, images):
    for seed in range(200):
        torch.manual_seed(seed)
        model = spread(build(config), images, seed, GAINS)
        for value in model.state_dict().values():
            if value.is_floating_point():
                value.copy_(value.half().float())
        if steady(model, images):
            break
    else:
        raise RuntimeError(f"no seed gives steady detections for {path.name}")
    path.mkdir()
    write_json(path / "config.json", config)
    state = model.state_dict()
    save_file({k: v.half() if v.is_floating_point() else v for k, v in state.items()}, path / "model.safetensors")
    tensors = {}
    for run, some in (("one", images[:1]), ("batch", images)):
        found, seen = outputs(model, some)
        if run == "one":
            tensors[f"{run}/batch_rows"] = seen["batch"][:, :, ::16]
            for i, level in enumerate(seen["levels"]):
                tensors[f"{run}/level{i}"] = level
            tensors[f"{run}/proposals"] = seen["proposals"][0]
            logits, changes = seen["heads"]
            tensors[f"{run}/probabilities"] = logits.softmax(-1)[:40]
            tensors[f"{run}/changes"] = changes[:40]
        for i, objects in enumerate(found):
            for name in ("boxes", "scores", "labels", "masks"):
                if name in objects:
                    tensors[f"{run}/{i}/{name}"] = objects[name].float()
    # Masks need not be exact to more than a thousandth.
    # To keep it small: the four prepare pictures alike, and masks are compared for one picture alone and one in a batch.
    unread = {"batch/0/masks", "batch/2/masks"} | ({"one/batch_rows"} if path.name != "faster-v1" else set())
    tensors = {k: (v.half() if "masks" in k else v).contiguous() for k, v in sorted(tensors.items()) if k not in unread}
    save_file(tensors, path / "expected.safetensors")
    sums = ", ".join(f"{len(x['scores'])}" for x in found)
    print(f"  {path.name}: seed {seed}, {sums} objects, scores {found[0]['scores'].tolist()}")


def make():
    path = case_dir("rcnn")
    images = list(pictures(11))
    save_file({str(i): image.half() for i, image in enumerate(images)}, path / "pictures.safetensors")
    for name, config in CONFIGS.items():
        make_one(path / name, config, images)
