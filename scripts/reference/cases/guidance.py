"""`fixtures/guidance/`: losses of the guidance methods and their gradients to the latents, by torch's autograd."""

import torch
from cases.guidance_procedures import LOSSES, Store, boxdiff_refined, conform_loss, latent_gradient
from common import FIXTURES, write_case
from diffusers import UNet2DConditionModel
from outputs import random_like

TOKENS, MAP_TOKENS = 77, 20
# Sample 0 has three objects, one of two tokens, sample 1 has two in other places. `end` is the position of the first
# end token.
BOXES = [[0.05, 0.25, 0.35, 0.75], [0.6, 0.1, 0.95, 0.9], [0.3, 0.55, 0.7, 1.0]]


def item(positions, box=None):
    return {"positions": positions} | ({"box": box} if box else {})


def stated(subject, relation, *objects):
    return {"subject": subject, "relation": relation, "objects": list(objects)}


FIRST = [item([2], BOXES[0]), item([7, 8], BOXES[1]), item([11], BOXES[2])]
SECOND = [item([3], BOXES[1]), item([9], BOXES[0])]


def targets(first, second):
    return [
        {"objects": FIRST, "relations": first, "end": 13},
        {"objects": SECOND, "relations": second, "end": 11},
    ]


ONE = targets([stated(0, "left of", 1)], [stated(0, "below", 1)])
OTHER = targets([stated(2, "right of", 0)], [stated(1, "above", 0)])
DIAGONAL = targets([stated(0, "above right of", 1)], [stated(0, "below left of", 1)])
SEVERAL = targets([stated(0, "left of", 1), stated(2, "above", 1)], [stated(0, "below left of", 1)])
NEAR = targets([stated(0, "near", 1)], [stated(1, "far from", 0)])
BETWEEN = targets([stated(1, "between", 0, 2)], [stated(0, "left of", 1)])
# A box of half a cell: the reference drops its inner term.
TINY = [dict(ONE[0], objects=[item([2], [0.1, 0.1, 0.14, 0.14]), FIRST[1]]), ONE[1]]
# Groups of three, two, one and one tokens; a sample of single tokens has no pair without the maps of the step before.
PHRASES = [dict(ONE[0], objects=[item([2, 3]), item([6, 7, 8]), item([11])]), ONE[1]]

POS = {"method": "pos", "preset": "sd14-reference", "combine": "sum"}
UNSMOOTHED = {"method": "pos", "preset": "sdxl-reference"}
BOXDIFF = {"method": "boxdiff", "preset": "sd14-reference"}
EXCITE = {"method": "attend-and-excite", "preset": "sd14-reference"}
# Name → configuration and targets.
CASES = {
    "one": (POS, ONE),
    "other": (POS, OTHER),
    "unsmoothed": (UNSMOOTHED | {"smoothing": False}, ONE),
    "paper": (POS | {"loss": "paper"}, ONE),
    "diagonal": (POS, DIAGONAL),
    "several": (POS, SEVERAL),
    "near": (POS, NEAR),
    "near_paper": (POS | {"loss": "paper", "distance": 0.2}, NEAR),
    "between": (POS, BETWEEN),
    "boxdiff": (BOXDIFF, ONE),
    "boxdiff_tiny_box": (BOXDIFF, TINY),
    "boxdiff_diffusers": (BOXDIFF | {"preset": "diffusers"}, ONE),
    "excite": (EXCITE, ONE),
    "layout": ({"method": "layout", "preset": "sd14-reference"}, ONE),
    "conform": ({"method": "conform", "preset": "sd14-reference"}, PHRASES),
    "conform_softmax": ({"method": "conform", "preset": "default"}, PHRASES),
}


def map_losses(tensors):
    """Losses on given maps [B, pixels, tokens], and their gradient to the maps."""
    rows, columns = 8, 6
    given = (random_like([2, rows * columns, MAP_TOKENS], 71)).double().softmax(-1)
    before = (random_like([2, rows * columns, MAP_TOKENS], 75)).double().softmax(-1)
    tensors |= {"maps": given, "maps_before": before}
    given, before = given.float().double(), before.float().double().unflatten(1, (rows, columns))
    for name, (config, wanted) in CASES.items():
        stages = [("", LOSSES.get(config["method"]))]
        if config["method"] == "boxdiff":
            stages.append(("/refined", boxdiff_refined))
        if config["method"] == "conform":
            stages.append(("/after", conform_loss))
        for stage, loss in stages:
            if not loss:
                continue
            maps = given.clone().requires_grad_(True)
            grid = maps.unflatten(1, (rows, columns))
            if stage == "/after":
                each = [loss(grid[i], target, config, before[i]) for i, target in enumerate(wanted)]
            else:
                each = [loss(grid[i], target, config) for i, target in enumerate(wanted)]
            tensors[f"maps/{name}{stage}/losses"] = torch.stack([torch.as_tensor(x) for x in each])
            tensors[f"maps/{name}{stage}/gradient"] = torch.autograd.grad(sum(each), maps)[0]


NETWORKS = {
    # Name → size of the latents, side of the maps, timestep, factor before the UNet (Euler at σ = 2.5).
    "sd1": ([16, 12], 6, 701, 1.0),
    "sdxl": ([20, 32], 5, 601, 1 / (2.5**2 + 1) ** 0.5),
}


def network_gradients(family, dtype):
    """Through the tiny networks: losses and gradients to the latents."""
    size, side, timestep, scale = NETWORKS[family]
    variant = {"variant": "fp16"} if family == "sdxl" else {}
    folder = FIXTURES / f"{family}-tiny/unet"
    unet = UNet2DConditionModel.from_pretrained(folder, dtype=dtype, **variant).eval().requires_grad_(False)
    store = Store(unet)
    width = 32 if family == "sd1" else 80
    latents = random_like([2, 4, *size], 72).to(dtype) / scale
    context = random_like([2, TOKENS, width], 73, scale=2.0).to(dtype)
    conditioning = {"encoder_hidden_states": context}
    inputs = {"latents": latents, "context": context}
    if family == "sdxl":
        added = {
            "text_embeds": random_like([2, 40], 74).to(dtype),
            "time_ids": torch.tensor([[80, 128, 0, 0, 80, 128], [64, 64, 4, 8, 80, 128]], dtype=dtype),
        }
        conditioning["added_cond_kwargs"] = added
        inputs |= added
    tensors = {f"{family}/{name}": value for name, value in inputs.items()}
    for name, (config, wanted) in CASES.items():
        each, gradient = latent_gradient(unet, store, latents, timestep, conditioning, wanted, config, side, scale)
        tensors |= {f"{family}/{name}/losses": each, f"{family}/{name}/gradient": gradient}
    return tensors


def make():
    tensors = {}
    map_losses(tensors)
    deviations = {"f32": {}, "bf16": {}}
    for family in NETWORKS:
        exact = network_gradients(family, torch.float64)
        for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            found = network_gradients(family, dtype)
            deviations[name][family] = {
                name: float(f"{(found[name].double() - exact[name]).abs().max() / exact[name].abs().max():.1e}")
                for name in found
                if name.endswith("gradient")
            }
        tensors |= exact
    info = {
        "cases": {name: {"config": config, "targets": wanted} for name, (config, wanted) in CASES.items()},
        "networks": {
            family: {"resolution": side, "timestep": timestep, "scale": scale}
            for family, (_, side, timestep, scale) in NETWORKS.items()
        },
        "relative_deviation_of_f32_from_f64": deviations["f32"],
        "relative_deviation_of_bf16_from_f64": deviations["bf16"],
    }
    write_case("guidance", tensors, info)
