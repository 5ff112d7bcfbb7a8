#!/usr/bin/env python3
"""What PyTorch's counter says of diffusers' UNets, for `models/tests/flops.rs`: two samples at the published size.

Nothing is computed: the networks are on the device `meta`.
"""

import json
from pathlib import Path

import torch
from diffusers import UNet2DConditionModel
from torch.utils.flop_counter import FlopCounterMode

CONFIGS = Path(__file__).resolve().parents[2] / "weights/configs"
ROWS, TOKENS = 2, 77

for family, side in (("sd1", 64), ("sdxl", 128)):
    config = json.loads((CONFIGS / family / "unet.json").read_text())
    with torch.device("meta"), torch.no_grad():
        unet = UNet2DConditionModel.from_config(config)
        sample = torch.empty(ROWS, 4, side, side)
        context = torch.empty(ROWS, TOKENS, config["cross_attention_dim"])
        added = {"text_embeds": torch.empty(ROWS, 1280), "time_ids": torch.empty(ROWS, 6)}
        with FlopCounterMode(display=False) as counter:
            unet(sample, torch.empty((), dtype=torch.int64), context, added_cond_kwargs=added)
    parts = {str(operation): count for operation, count in counter.get_flop_counts()["Global"].items()}
    print(family, counter.get_total_flops(), parts)
