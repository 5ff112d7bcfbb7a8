#!/usr/bin/env python3
"""Regenerates the committed fixtures: `python scripts/reference/make.py [CASE…]` (all cases without arguments)."""

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

# Thread count changes the order of floating point sums, and fixtures should come out the same everywhere.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

# Fixture folder → module in cases/ whose `make()` writes it. Order matters only for the eye.
CASES = {
    "noise": "noise",
    "schedulers": "schedulers",
    "sd1-tiny": "sd1",
    "sdxl-tiny": "sdxl",
    "keys": "keys",
    "single-file": "single_file",
    "gligen": "gligen",
    "ip-adapter": "ip_adapter",
    "sd2-tiny": "sd2",
    "composed": "composed",
    "fewer-calls": "fewer_calls",
    "savings": "savings",
    "pickle": "pickle_files",
    "lora": "lora",
    "tokenizer": "tokenizer",
    "toybox": "toybox",
    "toybox-clip": "toybox_clip",
    "gradients": "network_gradients",
    "rcnn": "rcnn",
    "eyes/grounding-dino": "eyes_grounding",
    "eyes/rt-detr": "eyes_rt_detr",
    "pictures": "pictures",
    "upscale": "upscale",
    "perturb": "perturb",
    "masks": "masks",
    "spatialbench-uc": "spatialbench_uc",
    "guidance": "guidance",
    "guidance-toybox": "guidance_toybox",
    "audit": "audit",
    "eyes": "eyes_towers",
    "corpus/parquet": "parquet_files",
    "eyes/image-reward": "eyes_image_reward",
    "eyes/inception": "eyes_inception",
    "eyes/owl-vit": "eyes_owl",
    "quality": "quality",
    "steer": "steer",
    "training": "training",
    "training-data": "training_data",
    "training-steps": "training_steps",
    "training-gligen": "training_gligen",
    "training-ip-adapter": "training_ip_adapter",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    names = parser.parse_args().cases or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"unknown case {', '.join(unknown)}; there are {', '.join(CASES)}")

    import torch
    from common import FIXTURES, silence

    silence()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name in names:
        start = time.time()
        importlib.import_module(f"cases.{CASES[name]}").make()
        size = sum(f.stat().st_size for f in (FIXTURES / name).rglob("*") if f.is_file())
        print(f"{name}: {size / 1024:.0f} KiB in {time.time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
