#!/usr/bin/env python3
"""Detectors by torchvision and by prepose in turn, on the same weights, pictures and threads: parity and time.

    detector.py --example target/release/examples/detect --scratch /scratch --json benches/results/detector.json \\
        fasterrcnn_resnet50_fpn_v2 weights/toybox/detector

A detector is the name of one of torchvision's, which gets random weights at full size (a `.pth` of torchvision's own
keys), or a folder. The programs take turns and the fastest run of each counts, so that other work on the machine weighs
on both alike. Exit code 1 if objects do not match one to one (scores to 1e-3, corners to 0.1 pixel) or prepose takes more
than `--limit` times as long. With random weights some of the many boxes overlap by the threshold of the suppression up to
rounding, and one stays here and another there: at full size one object in fifty may be without a partner.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

SCORE, CORNER, MASK = 1e-3, 0.1, 1e-2
GAINS = {
    "rpn.head.cls_logits": 3.0,
    "rpn.head.bbox_pred": 0.3,
    "roi_heads.box_predictor.cls_score": 3.0,
    "roi_heads.box_predictor.bbox_pred": 1.0,
}


def standard(name):
    """The configuration of torchvision's detector `name`, as RcnnConfig::standard has it."""
    second = name.endswith("_v2")
    backbone = {"block": "bottleneck", "layers": [3, 4, 6, 3], "norm_eps": 1e-5 if second else 0.0}
    config = {"architecture": "mask_rcnn" if name.startswith("mask") else "faster_rcnn", "backbone": backbone}
    if second:
        config |= {
            "fpn_norm": True,
            "rpn_conv_depth": 2,
            "box_head": {"kind": "conv_fc", "conv": [256] * 4, "fc": [1024]},
            "mask_head": {"norm": True},
        }
    return config | {"classes": ["__background__"] + ["a class"] * 90}


def smooth(sizes, seed):
    """Random pictures with structure at several scales."""
    import torch
    import torch.nn.functional as F

    rng = torch.Generator("cpu").manual_seed(seed)
    for height, width in sizes:
        parts = [torch.rand((1, 3, n, n), generator=rng) for n in (4, 9, 25, 70)]
        picture = sum(F.interpolate(part, (height, width), mode="bilinear") for part in parts)
        picture -= picture.min()
        yield (picture / picture.max())[0]


def load(path, config):
    import torch
    from detectors import build

    model = build(config)
    if path.suffix == ".pth":
        state = torch.load(path, weights_only=True)
    else:
        from safetensors.torch import load_file

        state = {k: v.float() if v.is_floating_point() else v for k, v in load_file(path).items()}
    model.load_state_dict(state)
    return model.eval()


def worker(path, config, pictures, repeats, out):
    """torchvision, in a process of its own."""
    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = load(Path(path), json.loads(Path(config).read_text()))
    images = load_file(pictures)
    images = [images[str(i)] for i in range(len(images))]
    seconds = []
    with torch.inference_mode():
        before = time.process_time()
        for _ in range(int(repeats)):
            start = time.perf_counter()
            found = model(images)
            seconds.append(time.perf_counter() - start)
        spent = time.process_time() - before
    torch.save({"seconds": seconds, "processor": spent, "found": found}, out)


def run(command, threads):
    count = str(threads)
    environment = dict(os.environ, OMP_NUM_THREADS=count, MKL_NUM_THREADS=count, RAYON_NUM_THREADS=count)
    done = subprocess.run([str(part) for part in command], env=environment, check=True, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def match(theirs, ours, masks):
    """How many objects there are, how many have no partner, and the largest deviations of those that have one."""
    import torch

    worst, alone, count = [0.0, 0.0, 0.0], 0, 0
    for i, (a, b) in enumerate(zip(theirs, ours)):
        left = list(range(len(b)))
        count += len(a["scores"])
        for j, (label, score, box) in enumerate(zip(a["labels"].tolist(), a["scores"].tolist(), a["boxes"])):

            def off(k, score=score, box=box):
                return abs(b[k][1] - score), (torch.tensor(b[k][2]) - box).abs().max().item()

            fits = [k for k in left if b[k][0] == label and off(k)[0] <= SCORE and off(k)[1] <= CORNER]
            if not fits:
                alone += 1
                continue
            best = min(fits, key=off)
            left.remove(best)
            mask = (masks[str(i)][best] - a["masks"][j, 0]).abs().max().item() if "masks" in a else 0.0
            worst = [max(x, y) for x, y in zip(worst, (*off(best), mask))]
        alone += len(left)
    return count, alone, worst


def prepare(name, args, pictures):
    """The folder or file of weights, and the configuration, of the detector `name`."""
    import torch
    from detectors import build, spread

    folder = Path(name)
    if folder.is_dir():
        weights = next(p for p in (folder / "model.safetensors", folder / "model.pth") if p.exists())
        return folder, weights, folder / "config.json"
    config = args.scratch / f"{name}.json"
    config.write_text(json.dumps(standard(name)))
    weights = args.scratch / f"{name}.pth"
    if not weights.exists():
        torch.manual_seed(args.seed)
        model = spread(build(standard(name)), pictures, args.seed, GAINS)
        torch.save(model.state_dict(), weights)
    return weights, weights, config


def compare(name, args):
    import torch
    from safetensors.torch import load_file, save_file

    toy = Path(name).is_dir()
    sizes = args.toy_sizes if toy else args.sizes
    pictures = list(smooth(sizes, args.seed))
    if toy and args.toy_pictures:
        pictures = list(load_file(args.toy_pictures).values())[: len(sizes)]
    file, masks, out = (args.scratch / part for part in ("pictures.safetensors", "masks.safetensors", "found.pt"))
    save_file({str(i): picture.contiguous() for i, picture in enumerate(pictures)}, file)
    ours_path, weights, config = prepare(name, args, pictures[:1])
    times, repeats = {"torchvision": [], "prepose": []}, args.repeats * (10 if toy else 1)
    spent = {"torchvision": 0.0, "prepose": 0.0}
    for _ in range(args.rounds):
        ours = run([args.example, ours_path, file, repeats, masks], args.threads)
        times["prepose"] += ours["seconds"]
        spent["prepose"] += ours["processor"] or 0.0
        run([sys.executable, __file__, "worker", weights, config, file, repeats, out], args.threads)
        theirs = torch.load(out, weights_only=True)
        times["torchvision"] += theirs["seconds"]
        spent["torchvision"] += theirs["processor"]
    best = {who: min(seconds) for who, seconds in times.items()}
    count, alone, worst = match(theirs["found"], ours["objects"], load_file(masks))
    report = {
        "detector": ours["detector"],
        "pictures": ", ".join("x".join(map(str, picture.shape[1:])) for picture in pictures),
        "objects": count,
        "without partner": alone,
        "allowed without partner": 0 if toy else count // 50,
        "largest deviation": dict(zip(("score", "corner", "mask"), worst)),
        "seconds": best,
        "ratio": best["prepose"] / best["torchvision"],
        "processor seconds per run": {who: seconds / args.rounds / repeats for who, seconds in spent.items()},
        "pictures per second": len(pictures) / best["prepose"],
        "seconds to load": ours["load"],
    }
    print(json.dumps(report, indent=1), flush=True)
    return report


def main():
    if sys.argv[1:2] == ["worker"]:
        return worker(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("detectors", nargs="+")
    parser.add_argument("--example", type=Path, required=True, help="of prepose-weights: detect")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--limit", type=float, default=1.5)

    def size(text):
        return [tuple(map(int, one.split("x"))) for one in text.split(",")]

    parser.add_argument("--sizes", type=size, default="512x512", help="height x width of full-size pictures, with commas")
    parser.add_argument("--toy-sizes", type=size, default=",".join(["128x128"] * 16))
    parser.add_argument("--toy-pictures", type=Path, help="safetensors with pictures for folders, instead of random ones")
    args = parser.parse_args()
    reports = [compare(name, args) for name in args.detectors]
    result = {
        "machine": f"{platform.machine()}, {args.threads} threads",
        "load average": os.getloadavg()[0],
        "detectors": reports,
    }
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    alone = any(report["without partner"] > report["allowed without partner"] for report in reports)
    sys.exit(alone or any(report["ratio"] > args.limit for report in reports))


if __name__ == "__main__":
    main()
