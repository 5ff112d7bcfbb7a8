"""The toybox detector: a small Mask R-CNN of torchvision's parts, trained on pictures with known truth.

    python scripts/toybox/detector.py train --run DIR --minutes 90      # needs DIR/bank.pt, see detector_bank.py
    python scripts/toybox/detector.py export --run DIR                  # weights/toybox/detector, in f16
    python scripts/toybox/detector.py measure --run DIR                 # figures to its card; needs DIR/held-out.pt
    python scripts/toybox/detector.py fixture --run DIR                 # fixtures/toybox-detector.safetensors

Objects that are spoiled beyond recognition (`detector_data`) are boxes in training, too: the proposals learn to look
at them, and the classification learns to call them background (`Sampler`).
"""

import argparse
import json
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torchvision.models.detection import MaskRCNN
from torchvision.models.detection._utils import BalancedPositiveNegativeSampler
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.rpn import RPNHead
from torchvision.models.resnet import BasicBlock, ResNet
from torchvision.ops import MultiScaleRoIAlign

import detector_bank
import detector_data
import world
from trained import on_card
from training import Stage

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "weights" / "toybox" / "detector"
FIXTURE = ROOT / "fixtures" / "toybox-detector.safetensors"
BATCH = 16
BANK_SHARE = 0.3  # of the training pictures
SCORE = 0.5  # from this score on, a detection counts

CONFIG = {
    "name": "toybox",
    "architecture": "mask_rcnn",
    # Strides 8 and 16 do: all objects are of about one size, and 28 x 28 masks of them need no finer features.
    "backbone": {"block": "basic", "layers": [1, 2, 2], "width": 32, "returned_layers": [2, 3]},
    "fpn_channels": 64,
    "anchor_sizes": [[28, 44], [40, 56], [48, 64]],
    "aspect_ratios": [0.5, 1.0, 2.0],
    "box_head": {"kind": "mlp", "width": 256},
    "mask_head": {"conv": [48, 48], "predictor": 32},
    "min_size": world.SIDE, "max_size": world.SIDE,
    "image_mean": [0.6, 0.6, 0.6], "image_std": [0.25, 0.25, 0.25],
    "rpn_pre_nms_top_n": 100, "rpn_post_nms_top_n": 60,
    "box_score_thresh": 0.05, "box_nms_thresh": 0.5, "detections_per_img": 20,
    "classes": ["__background__", *world.NAMES],
}
SPOILED_CELL = len(CONFIG["classes"])  # what the cells of spoiled objects are called in training


class NarrowResNet(ResNet):
    """torchvision's ResNet of basic blocks with another number of channels, without its classifier."""

    def __init__(self, layers, width):
        nn.Module.__init__(self)
        self._norm_layer, self.dilation, self.groups, self.base_width = nn.BatchNorm2d, 1, 1, 64
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        for i, blocks in enumerate(layers):
            self.add_module(f"layer{i + 1}", self._make_layer(BasicBlock, width << i, blocks, stride=min(i, 1) + 1))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")


def build(config):
    """The torchvision model that a configuration describes, with random weights."""
    backbone, channels, mask = config["backbone"], config["fpn_channels"], config["mask_head"]
    levels = backbone["returned_layers"]
    names = [str(i) for i in range(len(levels))]
    body = BackboneWithFPN(
        NarrowResNet(backbone["layers"], backbone["width"]),
        return_layers={f"layer{level}": name for level, name in zip(levels, names)},
        in_channels_list=[backbone["width"] << (level - 1) for level in levels], out_channels=channels)
    anchors = AnchorGenerator(tuple(map(tuple, config["anchor_sizes"])),
                              (tuple(config["aspect_ratios"]),) * (len(levels) + 1))
    classes, width = len(config["classes"]), config["box_head"]["width"]
    return MaskRCNN(
        body, min_size=config["min_size"], max_size=config["max_size"],
        image_mean=config["image_mean"], image_std=config["image_std"],
        rpn_anchor_generator=anchors, rpn_head=RPNHead(channels, anchors.num_anchors_per_location()[0]),
        rpn_pre_nms_top_n_train=config["rpn_pre_nms_top_n"], rpn_pre_nms_top_n_test=config["rpn_pre_nms_top_n"],
        rpn_post_nms_top_n_train=config["rpn_post_nms_top_n"], rpn_post_nms_top_n_test=config["rpn_post_nms_top_n"],
        rpn_fg_iou_thresh=0.6, rpn_batch_size_per_image=64,
        box_roi_pool=MultiScaleRoIAlign(names, 7, 2), box_head=TwoMLPHead(channels * 49, width),
        box_predictor=FastRCNNPredictor(width, classes),
        box_score_thresh=config["box_score_thresh"], box_nms_thresh=config["box_nms_thresh"],
        box_detections_per_img=config["detections_per_img"],
        mask_roi_pool=MultiScaleRoIAlign(names, 14, 2), mask_head=MaskRCNNHeads(channels, mask["conv"], 1),
        mask_predictor=MaskRCNNPredictor(mask["conv"][-1], mask["predictor"], classes))


def load(folder):
    """The trained detector, ready to look at pictures (list of float [3, H, W] in 0..1)."""
    model = build(json.loads((folder / "config.json").read_text()))
    model.load_state_dict({k: v.float() if v.is_floating_point() else v
                           for k, v in load_file(folder / "model.safetensors").items()})
    return model.eval()


def to_tensor(picture):
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255


# --- Training -----------------------------------------------------------------------------------


class Sampler(BalancedPositiveNegativeSampler):
    """Chooses the regions that the box head learns from, as torchvision does, and up to six a picture that
    show spoiled objects. torchvision skips negative labels; these become 0, background."""

    def __call__(self, matched_idxs):
        positive, negative = super().__call__(matched_idxs)
        for labels, chosen in zip(matched_idxs, negative):
            spoiled = torch.nonzero(labels == detector_data.SPOILED)[:, 0]
            chosen[spoiled[torch.randperm(len(spoiled))[:6]]] = 1
            labels[spoiled] = 0
        return positive, negative


def target_of(example):
    boxes = [detector_data.box_of(mask) for _, _, mask in example.objects]
    masks = [mask for _, _, mask in example.objects]
    return dict(boxes=torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
                labels=torch.tensor([label for label, _, _ in example.objects], dtype=torch.int64),
                masks=torch.from_numpy(np.array(masks, np.uint8).reshape(-1, world.SIDE, world.SIDE)))


def from_bank(rng, bank):
    """A picture of the bank, shifted and lightly disturbed, so that it is seldom the same."""
    example = rng.choice(bank)
    dx, dy = rng.randint(-6, 6), rng.randint(-6, 6)
    rows, columns = (np.arange(world.SIDE) - d for d in (dy, dx))
    inside = ((rows >= 0) & (rows < world.SIDE))[:, None] & ((columns >= 0) & (columns < world.SIDE))
    where = np.ix_(rows.clip(0, world.SIDE - 1), columns.clip(0, world.SIDE - 1))
    noise = np.random.default_rng(rng.getrandbits(64))
    picture = example.picture[where].astype(np.float32) / 255
    picture = picture * rng.uniform(0.9, 1.08) * noise.uniform(0.96, 1.04, 3).astype(np.float32)
    if rng.random() < 0.3:
        picture += noise.normal(0, rng.uniform(0, 0.03), picture.shape).astype(np.float32)
    moved = [(label, name, mask[where] & inside) for label, name, mask in example.objects]
    return detector_data.Example((picture.clip(0, 1) * 255 + 0.5).astype(np.uint8),
                                 [o for o in moved if o[2].sum() > 60])


class Practice(torch.utils.data.IterableDataset):
    """Endless batches: pictures float [16, 3, 128, 128] in 0..1, and torchvision's targets."""

    def __init__(self, bank):
        self.bank = bank

    def __iter__(self):
        rng = random.Random()
        torch.set_num_threads(1)
        while True:
            examples = [from_bank(rng, self.bank) if self.bank and rng.random() < BANK_SHARE
                        else detector_data.drawing(rng) for _ in range(BATCH)]
            yield (torch.stack([to_tensor(e.picture) for e in examples]), [target_of(e) for e in examples])


def practice(run, workers):
    path = run / "bank.pt"
    bank = detector_bank.load(path) if path.exists() else []
    return iter(torch.utils.data.DataLoader(Practice(bank), batch_size=None, num_workers=workers, prefetch_factor=4))


def normalised(x):
    return (x - torch.tensor(CONFIG["image_mean"]).view(3, 1, 1)) / torch.tensor(CONFIG["image_std"]).view(3, 1, 1)


def cell_labels(target):
    """What covers more than a third of each cell of the finest features: [16, 16], -100 where it does not matter."""
    cells = torch.zeros(world.GRID, world.GRID, dtype=torch.int64)
    if len(target["masks"]):
        share, which = F.avg_pool2d(target["masks"].float(), world.CELL).max(0)
        labels = target["labels"][which]
        labels = labels.masked_fill(labels == detector_data.EITHER, -100)
        cells = torch.where(share > 1 / 3, labels.masked_fill(labels == detector_data.SPOILED, SPOILED_CELL), 0)
    return cells


def losses(model, cells, x, targets):
    """torchvision's losses, and that of naming each cell, from which the backbone learns faster than from a few
    regions. Pictures are of the right size already, so the transform has nothing to do."""
    images = ImageList(normalised(x).contiguous(memory_format=torch.channels_last), [(world.SIDE, world.SIDE)] * len(x))
    features = model.backbone(images.tensors)
    proposals, first = model.rpn(images, features, targets)
    _, second = model.roi_heads(features, proposals, images.image_sizes, targets)
    named = F.cross_entropy(cells(features["0"]), torch.stack([cell_labels(t) for t in targets]))
    return {**first, **second, "cells": named}


def new_parts():
    torch.manual_seed(5)
    model = build(CONFIG)
    model.backbone.to(memory_format=torch.channels_last)  # a quarter faster on CPUs
    model.roi_heads.fg_bg_sampler = Sampler(16, 0.4)
    return model, nn.Conv2d(CONFIG["fpn_channels"], SPOILED_CELL + 1, 1)


def train(args):
    model, cells = new_parts()
    args.run.mkdir(parents=True, exist_ok=True)
    stage = Stage(args.run, "detector", [model, cells], args.minutes, 1.5e-3, ema=0.995, weight_decay=0.02,
                  flat_until=0.4)
    batches = practice(args.run, args.workers)
    while stage.running():
        parts = losses(model, cells, *next(batches))
        stage.step(sum(parts.values()), **{k.removeprefix("loss_"): v.detach() for k, v in parts.items()})


def export(args):
    """Writes the averaged weights. The statistics of the batch norms are measured anew for them."""
    model, cells = new_parts()
    state = torch.load(args.run / "detector.resume.pt", weights_only=True)
    together = nn.ModuleList([model, cells])
    together.load_state_dict(state["modules"])
    with torch.no_grad():
        for p, averaged in zip(together.parameters(), state["shadow"]):
            p.copy_(averaged)
        norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain mean over all batches
        batches = practice(args.run, 1)
        for _ in range(40):
            model.backbone(normalised(next(batches)[0]))
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    tensors = {k: (v.half() if v.is_floating_point() else v).contiguous() for k, v in model.state_dict().items()}
    save_file(tensors, args.folder / "model.safetensors", metadata={"format": "pt"})
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters,"
          f" {(args.folder / 'model.safetensors').stat().st_size / 1e6:.2f} MB, step {state['steps']}")


# --- Measuring ----------------------------------------------------------------------------------


@torch.no_grad()
def look(model, pictures):
    """Detections that count, for each picture (uint8): list of (label, score, box [4], mask [128, 128])."""
    seen = []
    for start in range(0, len(pictures), BATCH):
        for found in model([to_tensor(p) for p in pictures[start:start + BATCH]]):
            seen.append([(label.item(), score.item(), box.numpy(), mask[0].numpy() > 0.5)
                         for label, score, box, mask in zip(found["labels"], found["scores"], found["boxes"],
                                                            found["masks"]) if score >= SCORE])
    return seen


def overlap(a, b):
    """Intersection over union of two boxes."""
    shared = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0).prod()
    return shared / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared)


class Tally:
    """Detections against truth: a detection is right if a box of its name overlaps by half or more (IoU)."""

    def __init__(self):
        self.right = self.claimed = self.objects = self.spoiled = self.accepted = 0
        self.mask_iou, self.box_error = [], []

    def add(self, example, seen):
        truth = [(label, np.array(detector_data.box_of(mask), np.float32), mask) for label, _, mask in example.objects]
        self.objects += sum(label > 0 for label, *_ in truth)
        spoiled = [box for label, box, _ in truth if label == detector_data.SPOILED]
        either = [box for label, box, _ in truth if label == detector_data.EITHER]
        self.spoiled += len(spoiled)
        self.accepted += sum(any(overlap(box, d[2]) >= 0.5 and not any(
            overlap(d[2], t) > overlap(d[2], box) for _, t, _ in truth) for d in seen) for box in spoiled)
        left = [t for t in truth if t[0] > 0]
        for label, _, box, mask in sorted(seen, key=lambda d: -d[1]):
            best = max((t for t in left if t[0] == label), key=lambda t: overlap(t[1], box), default=None)
            if best is not None and overlap(best[1], box) >= 0.5:
                left = [t for t in left if t is not best]
                self.right, self.claimed = self.right + 1, self.claimed + 1
                self.box_error.append(np.abs(best[1] - box))
                self.mask_iou.append((best[2] & mask).sum() / (best[2] | mask).sum())
            elif not any(overlap(e, box) >= 0.3 for e in either):
                self.claimed += 1

    def rows(self):
        rows = [("precision", percent(self.right, self.claimed)), ("recall", percent(self.right, self.objects))]
        if self.spoiled:
            rows.append(("spoiled objects accepted as something", percent(self.accepted, self.spoiled)))
        return rows


def percent(part, whole):
    return f"{100 * part / max(whole, 1):.2f} % ({part} of {whole})"


def tally(model, examples):
    result = Tally()
    for example, seen in zip(examples, look(model, [e.picture for e in examples])):
        result.add(example, seen)
    return result


def verdict(a, b, seen, axis, margin=0.1, delta=0.1):
    """SpatialBench-UC's rule by centres for "a is left of (above) b": True, False, or None if undecidable."""
    centres = []
    for name in (a, b):
        here = sorted((d for d in seen if d[0] == name), key=lambda d: -d[1])
        if not here or (len(here) > 1 and here[0][1] - here[1][1] < delta):
            return None
        box = here[0][2]
        centres.append((box[axis] + box[axis + 2]) / 2)
    apart = (centres[0] - centres[1]) / world.SIDE
    return None if abs(apart) <= margin else bool(apart < 0)


def judge_verdicts(model, examples):
    """(questions, decided, wrong, PASS, wrongly PASS) for both axes and both orders of all pairs of different names
    whose true centres are more than the margin apart."""
    asked = decided = wrong = passed = wrongly = 0
    for example, seen in zip(examples, look(model, [e.picture for e in examples])):
        things = [(label, np.array(detector_data.box_of(mask))) for label, mask in example.things()]
        exact = [(label, 1.0, box, None) for label, box in things]
        for a, b in ((a, b) for a, _ in things for b, _ in things if a != b):
            for axis in (0, 1):
                truth = verdict(a, b, exact, axis)
                if truth is None:
                    continue
                says = verdict(a, b, seen, axis)
                asked, decided = asked + 1, decided + (says is not None)
                wrong += says is not None and says != truth
                passed, wrongly = passed + (says is True), wrongly + (says is True and not truth)
    return asked, decided, wrong, passed, wrongly


def alone(rng, sprite, label, name):
    """One sprite in the middle of a plain background."""
    picture = world.draw(world.Scene((), "none", world.random_background(rng))).astype(np.float32) / 255
    owner = np.full((world.SIDE, world.SIDE), -1, np.int8)
    x, y = (rng.randint(0, 24) + 52 - sprite.shape[1] // 2 for _ in "xy")
    detector_data.paste(picture, owner, 0, sprite, x, y)
    return detector_data.Example((picture.clip(0, 1) * 255 + 0.5).astype(np.uint8), [(label, name, owner == 0)])


def blurred(rng, sigma, count):
    return [alone(rng, detector_data.blur(world.sprite(name), sigma) if sigma else world.sprite(name),
                  world.NAMES.index(name) + 1, name) for name in (rng.choice(world.NAMES) for _ in range(count))]


def twice(rng):
    """The same object two times, perhaps touching, never one on the other."""
    while True:
        name = rng.choice(world.NAMES)
        slack = world.SIDE - world.CELLS_OF[name] * world.CELL
        corners = [(rng.randint(0, slack), rng.randint(0, slack)) for _ in "12"]
        if max(abs(a - b) for a, b in zip(*corners)) >= world.CELLS_OF[name] * world.CELL:
            break
    picture = world.draw(world.Scene((), "none", world.random_background(rng))).astype(np.float32) / 255
    owner = np.full((world.SIDE, world.SIDE), -1, np.int8)
    for index, (x, y) in enumerate(corners):
        detector_data.paste(picture, owner, index, world.sprite(name), x, y)
    label = world.NAMES.index(name) + 1
    return detector_data.Example((picture * 255 + 0.5).astype(np.uint8),
                                 [(label, name, owner == index) for index in (0, 1)])


def measure(args):
    """Writes the figures to the card. All pictures are held out: other seeds than the training's."""
    model, rng, count = load(args.folder), random.Random(20260), args.count
    clean = [detector_data.clean_drawing(detector_data.clean_scene(rng)) for _ in range(count)]
    hard = [detector_data.drawing(rng) for _ in range(count)]
    bank = detector_bank.load(args.run / "held-out.pt")
    on_clean = tally(model, clean)
    errors = np.array(on_clean.box_error)
    rows = [("**clean drawings**", f"{count} scenes"), *on_clean.rows(),
            ("mask IoU, mean", f"{np.mean(on_clean.mask_iou):.3f}"),
            ("box edges off by, mean and 99th percentile",
             f"{errors.mean():.2f} and {np.quantile(errors, 0.99):.2f} pixels"),
            ("**as in training: disturbed, overlapping, cut, spoiled**", f"{count} scenes"), *tally(model, hard).rows(),
            ("**decoded and generated pictures of the toybox**", f"{len(bank)} pictures"), *tally(model, bank).rows()]
    doubles = [twice(rng) for _ in range(count // 2)]
    as_two = sum(sum(d[0] == e.objects[0][0] for d in seen) == 2
                 for e, seen in zip(doubles, look(model, [e.picture for e in doubles])))
    rows += [("**the same object twice**: found as two", percent(as_two, len(doubles)))]
    rows += [("**spoiled objects alone**, accepted as something", "")]
    for kind, ruin in detector_data.RUINS.items():
        spoiled = [alone(rng, ruin(rng, np.random.default_rng(rng.getrandbits(64)), name), detector_data.SPOILED, name)
                   for name in (rng.choice(world.NAMES) for _ in range(count // 5))]
        rows += [(f"– {kind}", percent(sum(map(bool, look(model, [e.picture for e in spoiled]))), len(spoiled)))]
    rows += [("**objects alone under Gaussian blur**, found with the right name", "")]
    for sigma in (0, 1, 1.6, 2.5, 3.5, 5, 7):
        result = tally(model, blurred(rng, sigma, count // 5))
        rows += [(f"– {sigma} pixels", percent(result.right, result.objects))]
    rows += [("**verdicts by centres** (margin 0.1, ambiguity 0.1), where the truth is decidable", "")]
    for kind, examples in (("clean drawings", clean), ("decoded and generated pictures", bank)):
        asked, decided, wrong, passed, wrongly = judge_verdicts(model, examples)
        rows += [(f"– {kind}: decided", percent(decided, asked)), (f"– {kind}: of those, wrong", percent(wrong, decided)),
                 (f"– {kind}: PASS that are wrong", percent(wrongly, passed))]
    log = [json.loads(line) for line in (args.run / "log.jsonl").read_text().splitlines()][-1]
    command = f"python scripts/toybox/detector.py measure --run DIR --count {count}"
    table = "\n".join([f"Score at least {SCORE}; right means the name and a box IoU of at least 0.5. `{command}`", "",
                       "| | |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in rows)])
    card = args.folder / "README.md"
    on_card(card, "measured", lambda _: table)
    on_card(card, "trained", lambda _: f"{log['step']:,} steps of {BATCH} pictures, {log['minutes']:.0f} minutes of a shared CPU core.")
    print("\n".join(f"{a}: {b}" for a, b in rows))


@torch.no_grad()
def fixture(args):
    """Six pictures with torchvision's detections, to compare other implementations with: `pictures` u8
    [6, 3, 128, 128]; for each detection `picture` (its index), `boxes`, `labels`, `scores`, and `masks`, pasted,
    at least 0.5, as bits (most significant first) row by row, u8 [D, 2048]."""
    model, rng = load(args.folder), random.Random(11)
    held_out = detector_bank.load(args.run / "held-out.pt")
    most = lambda examples: max(examples, key=lambda e: len(e.things()))
    examples = [detector_data.clean_drawing(world.random_scene(rng)),
                most([detector_data.clean_drawing(world.crowded_scene(rng)) for _ in range(8)]), twice(rng),
                *(most([detector_data.drawing(rng) for _ in range(8)]) for _ in range(2)),
                max(held_out[:60], key=lambda e: len(e.objects))]
    pictures = torch.from_numpy(np.stack([e.picture for e in examples])).permute(0, 3, 1, 2).contiguous()
    found = model([p.float() / 255 for p in pictures])
    masks = torch.cat([f["masks"] for f in found])[:, 0] >= 0.5
    save_file(dict(
        pictures=pictures, picture=torch.cat([torch.full((len(f["scores"]),), i) for i, f in enumerate(found)]),
        masks=torch.from_numpy(np.packbits(masks.flatten(1).numpy(), axis=1)),
        **{key: torch.cat([f[key] for f in found]) for key in ("boxes", "labels", "scores")}), FIXTURE)
    print(f"{FIXTURE}: {len(masks)} detections, {FIXTURE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["train", "export", "measure", "fixture"])
    parser.add_argument("--run", type=Path, help="the training folder")
    parser.add_argument("--minutes", type=float, help="how long to train, earlier runs counted in")
    parser.add_argument("--workers", type=int, default=1, help="processes that draw")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the detector is")
    parser.add_argument("--count", type=int, default=1000, help="held-out scenes to measure with")
    args = parser.parse_args()
    dict(train=train, export=export, measure=measure, fixture=fixture)[args.action](args)
