"""The toybox's layers of GLIGEN's, before and after `prepose train gligen`.

    python scripts/toybox/gligen.py begin start.safetensors
    python scripts/toybox/gligen.py take TRAINING

`begin` writes layers to begin with. The authors' begin with closed gates before random projections, so that at first what the layers
learn counts as little as the gates are open; these have open gates before projections of zeros, which change as little and learn at
once: a training of hundreds of steps instead of hundreds of thousands needs that. `take` copies TRAINING/gligen.safetensors to
weights/toybox/gligen and writes the record of the training onto the card there.
"""

import json
import shutil
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "weights/toybox/gligen"
START, END = "<!-- trained -->", "<!-- /trained -->"


def words(recipe):
    """The options of the command that are not its defaults."""
    rate, rule = recipe["rate"], recipe["optimizer"]["adam_w"]
    options = {
        "--batch": recipe["batch"],
        "--steps": recipe["steps"],
        "--rate": f"{rate['peak']:g}",
        "--warmup": rate["warmup"],
        "--schedule": rate["decay"],
        "--betas": f"{rule['beta1']:g},{rule['beta2']:g}",
        "--clip": f"{recipe['clip']:g}",
        "--layout-share": recipe["timesteps"]["layout"],
        "--ema": recipe["average"]["decay"],
    }
    return " ".join(f"{name} {value}" for name, value in options.items())


def begin(path):
    """PyTorch's first values, but for gates and what follows attention and feed-forward."""
    import torch
    from diffusers import UNet2DConditionModel
    from safetensors.torch import save_file

    torch.manual_seed(0)
    config = json.loads((TARGET.parent / "unet/config.json").read_text()) | {"attention_type": "gated"}
    layers = {}
    for name, value in UNet2DConditionModel.from_config(config).state_dict().items():
        if ".fuser.alpha_" in name:
            layers[name] = torch.ones_like(value)
        elif ".fuser.attn.to_out." in name or ".fuser.ff.net.2." in name:
            layers[name] = torch.zeros_like(value)
        elif ".fuser." in name or name.startswith("position_net."):
            layers[name] = value.contiguous()
    save_file(layers, path)


def take(training):
    settings = json.loads((training / "training.json").read_text())
    log = [json.loads(line) for line in (training / "log.jsonl").read_text().splitlines()]
    shutil.copyfile(training / "gligen.safetensors", TARGET / "gligen.safetensors")
    recipe, tenth = settings["recipe"], max(len(log) // 10, 1)
    rows = ["| steps | mean loss |", "| ---: | ---: |"]
    for start in range(0, len(log) - tenth + 1, tenth):
        part = log[start : start + tenth]
        rows.append(f"| {part[0]['step']}–{part[-1]['step']} | {sum(step['loss'] for step in part) / len(part):.4f} |")
    samples = sum(step["samples"] for step in log)
    text = [
        f"{settings['pictures']} pictures, {len(log)} steps, {samples} samples in all.",
        "",
        "```",
        f"prepose train gligen boxed --gligen start.safetensors {words(recipe)} --out runs/toybox-gligen",
        "```",
        "",
        *rows,
    ]
    card = TARGET / "README.md"
    before, rest = card.read_text().split(START)
    card.write_text(f"{before}{START}\n" + "\n".join(text) + f"\n{END}{rest.split(END)[1]}")


def main():
    what, path = sys.argv[1:]
    {"begin": begin, "take": take}[what](Path(path))


if __name__ == "__main__":
    main()
