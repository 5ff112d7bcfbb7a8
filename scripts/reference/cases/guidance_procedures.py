"""The guidance methods as published, one sample at a time, on a diffusers UNet under torch's autograd.

Plain on purpose: every map of every cross-attention layer is kept, the whole UNet runs, losses are loops. This is what
`src/guidance` must agree with. Sources and constants: docs/guidance.
"""

import math

import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import NTXentLoss


class Store:
    """The cross-attention probabilities of a forward pass: name → [B, heads, pixels, tokens], in execution order."""

    def __init__(self, unet):
        self.maps = {}
        unet.set_attn_processor({name: Keeping(self, name) for name in unet.attn_processors})


class Keeping:
    """Attention with explicit probabilities."""

    def __init__(self, store, name):
        self.store, self.name = store, name.removesuffix(".processor")

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None, **_):
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states

        def heads(x):
            return x.unflatten(-1, (attn.heads, -1)).transpose(1, 2)

        q, k, v = heads(attn.to_q(hidden_states)), heads(attn.to_k(context)), heads(attn.to_v(context))
        probabilities = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        if encoder_hidden_states is not None:
            self.store.maps[self.name] = probabilities
        return attn.to_out[0]((probabilities @ v).transpose(1, 2).flatten(2))


def size_of(maps, latents):
    """Rows and columns of a layer's maps: each downsampling halves, rounding up."""
    rows, columns = latents
    while rows * columns > maps.shape[2]:
        rows, columns = (rows + 1) // 2, (columns + 1) // 2
    assert rows * columns == maps.shape[2]
    return rows, columns


def mean_maps(store, latents, side):
    """[B, rows, columns, tokens]: the mean over all heads of all layers whose shorter side is `side`."""
    kept = {name: size_of(maps, latents) for name, maps in store.maps.items()}
    chosen = [(store.maps[name], size) for name, size in kept.items() if min(size) == side]
    stacked = torch.cat([maps for maps, _ in chosen], dim=1)
    return stacked.mean(1).unflatten(1, chosen[0][1])


def smooth(image):
    """3×3, reflected at the border. The family's kernel: exp(-(d / 2σ)²) on each axis with σ = 0.5."""
    axis = torch.exp(-(torch.tensor([-1.0, 0.0, 1.0], dtype=image.dtype) ** 2))
    kernel = axis[:, None] * axis[None, :]
    padded = F.pad(image[None, None], (1, 1, 1, 1), mode="reflect")
    return F.conv2d(padded, (kernel / kernel.sum())[None, None])[0, 0]


def object_maps(maps, target, config):
    """One [rows, columns] for each object of the sample: the mean over its tokens."""
    found = [maps[:, :, item["positions"]].mean(-1) for item in target["objects"]]
    return [smooth(image) for image in found] if config.get("smoothing", True) else found


# ---- PoS (Rezaei et al. 2025) ----


def profiles(image):
    x, y = image.sum(0), image.sum(1)
    return x / x.sum(), y / y.sum()


def order_loss(first, second, form):
    """The first object should come before the second along the axis."""
    if form == "paper":
        return -((first * second.flip(0).cumsum(0).flip(0)).sum() ** 2)  # −P(second ≥ first)²
    return (first * second.cumsum(0)).sum() ** 2  # P(first ≥ second)²


def apart(a, b, c):
    """P(|A − B| > c) along one axis."""
    n = a.shape[0]
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    return (a[:, None] * b[None, :] * ((i - j).abs() > c)).sum()


DIRECTIONS = {
    "left of": [(0, False)],
    "right of": [(0, True)],
    "above": [(1, False)],
    "below": [(1, True)],
    "above left of": [(0, False), (1, False)],
    "above right of": [(0, True), (1, False)],
    "below left of": [(0, False), (1, True)],
    "below right of": [(0, True), (1, True)],
}


def relation_losses(images, relation, config):
    """The losses that a relation stands for; more than one for the diagonals."""
    form = config.get("loss", "wrong-order")
    subject, objects = profiles(images[relation["subject"]]), [profiles(images[o]) for o in relation["objects"]]
    name = relation["relation"]
    if name in DIRECTIONS:
        return [
            order_loss(*((objects[0][axis], subject[axis]) if swap else (subject[axis], objects[0][axis])), form)
            for axis, swap in DIRECTIONS[name]
        ]
    if name in ("near", "far from"):
        rows, columns = images[0].shape
        c = round(config.get("distance", 5 / 16) * min(rows, columns))
        total = apart(subject[0], objects[0][0], c) + apart(subject[1], objects[0][1], c)
        if form == "paper":
            return [total**2 if name == "near" else -(total**2)]
        return [(total / 2) ** 2 if name == "near" else (1 - total / 2) ** 2]
    assert name == "between"
    a, b = objects
    orders = [
        order_loss(before[axis], subject[axis], form) + order_loss(subject[axis], after[axis], form)
        for axis in (0, 1)
        for before, after in ((a, b), (b, a))
    ]
    return [min(orders)]


PARTS = {"above": "above", "below": "below", "left": "left of", "right": "right of"}


def relation_parts(relation):
    """The plain directions that make up a diagonal, sideways first; anything else as it is."""
    words = relation["relation"].removesuffix(" of").split()
    if len(words) == 1 or relation["relation"] not in DIRECTIONS:
        return [relation]
    return [dict(relation, relation=PARTS[word]) for word in reversed(words)]


def pos_losses(maps, target, config):
    images = object_maps(maps, target, config)
    return [loss for relation in target["relations"] for loss in relation_losses(images, relation, config)]


# ---- BoxDiff (Xie et al. 2023) and Attend-and-Excite (Chefer et al. 2023) ----


def among_tokens(maps, target, config):
    """Softmax of 100 times the probabilities over the tokens from the first of text on: to the one before the last of
    all, end and padding included, or only to the end of the text (`normalize_eot`)."""
    last = target["end"] if config["preset"] == "diffusers" and config["method"] == "boxdiff" else -1
    text = (maps[:, :, 1:last] * 100).softmax(-1)
    return F.pad(text, (1, maps.shape[2] - 1 - text.shape[2]))


def boxdiff_terms(maps, target, config, share=0.2, width=1):
    """Inner box, outer box and corners of each object."""
    images = object_maps(among_tokens(maps, target, config), target, config)
    inner, outer, corners = [], [], []
    for image, item in zip(images, target["objects"]):
        if "box" not in item:
            continue
        rows, columns = image.shape
        x1, y1, x2, y2 = (max(round(v * n), 0) for v, n in zip(item["box"], (columns, rows) * 2))
        mask = torch.zeros_like(image)
        mask[y1:y2, x1:x2] = 1
        for found, region, loss in ((inner, mask, lambda m: 1 - m), (outer, 1 - mask, lambda m: m)):
            k = int(region.sum() * share)
            found.append(max(0, loss((image * region).flatten().topk(k)[0].mean())))  # max(0, NaN) is 0
        for axis, edges in ((0, (x1, x2)), (1, (y1, y2))):
            near = torch.zeros(image.shape[1 - axis], dtype=image.dtype)
            for edge in edges:
                near[max(edge - width, 0) : min(edge + width + 1, near.shape[0])] = 1
            corners.append(((image.amax(axis) - mask.amax(axis)).abs() * near).mean())
    return inner, outer, corners


def boxdiff_loss(maps, target, config):
    return sum(sum(part) for part in boxdiff_terms(maps, target, config))


def boxdiff_refined(maps, target, config):
    return max(boxdiff_terms(maps, target, config)[0])


def excite_loss(maps, target, config):
    images = object_maps(among_tokens(maps, target, config), target, config)
    return max(max(0, 1 - image.max()) for image in images)


# ---- CONFORM (Meral et al. 2024) ----


def conform_loss(maps, target, config, before=None):
    """The authors' loss, by the library that they call: the map of each token of an object is an embedding of the object's class,
    and so is its map of the step before. The code's own default has a softmax over tokens, its notebook has none."""
    embeddings, classes = [], []
    for image in [maps] if before is None else [maps, before.detach()]:
        if config["preset"] == "default":
            image = among_tokens(image, target, config)
        for group, item in enumerate(target["objects"]):
            for position in item["positions"]:
                embeddings.append(smooth(image[:, :, position]).flatten())
                classes.append(group)
    return NTXentLoss(temperature=0.5)(torch.stack(embeddings), torch.tensor(classes))


# ---- Layout guidance (Chen, Laina and Vedaldi 2024) ----


def layout_layers(store):
    """The middle block's layers and those of the first block on the way up that has any."""
    first_up = next(name for name in store.maps if name.startswith("up_blocks")).split(".attentions")[0]
    return [name for name in store.maps if name.startswith(("mid_block", first_up + "."))]


def layout_loss(store, sample, latents, target):
    total = 0
    layers, boxed = layout_layers(store), [item for item in target["objects"] if "box" in item]
    for name in layers:
        rows, columns = size_of(store.maps[name], latents)
        maps = store.maps[name][sample].unflatten(1, (rows, columns))
        for item in boxed:
            x1, y1, x2, y2 = (int(v * n) for v, n in zip(item["box"], (columns, rows) * 2))
            mask = torch.zeros(rows, columns, dtype=maps.dtype)
            mask[y1:y2, x1:x2] = 1
            of_object = maps[..., item["positions"]].mean(-1)
            share = (of_object * mask).sum((1, 2)) / of_object.sum((1, 2))
            total = total + ((1 - share) ** 2).mean()
    return total / (len(boxed) * len(layers))


# ---- what the methods share ----

LOSSES = {
    "pos": lambda *a: sum(pos_losses(*a)),
    "boxdiff": boxdiff_loss,
    "attend-and-excite": excite_loss,
    "conform": conform_loss,
}


def losses(store, latents, targets, config, side, refined=False, before=None):
    """One loss for each sample, after a forward pass; `before` are CONFORM's mean maps of the step before."""
    if config["method"] == "layout":
        return [layout_loss(store, i, latents, target) for i, target in enumerate(targets)]
    maps = mean_maps(store, latents, side)
    if before is not None:
        return [conform_loss(maps[i], target, config, before[i]) for i, target in enumerate(targets)]
    loss = boxdiff_refined if refined and config["method"] == "boxdiff" else LOSSES[config["method"]]
    return [loss(maps[i], target, config) for i, target in enumerate(targets)]


def latent_gradient(unet, store, latents, timestep, conditioning, targets, config, side, scale=1.0, refined=False, before=None):
    """Losses [B] and their gradient to the latents; the UNet sees the latents times `scale`."""
    latents = latents.detach().requires_grad_(True)
    unet(latents * scale, timestep, **conditioning)
    each = losses(store, latents.shape[2:], targets, config, side, refined, before)
    gradient = torch.autograd.grad(sum(each), latents)[0]
    return torch.stack([torch.as_tensor(loss, dtype=latents.dtype).detach() for loss in each]), gradient
