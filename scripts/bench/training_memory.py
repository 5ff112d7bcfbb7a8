#!/usr/bin/env python3
"""Peak memory and seconds of a step of training a LoRA, whole and recomputed, here and in PyTorch (diffusers, PEFT) in turns:

    training_memory.py --step target/release/examples/training_step --prepose target/release/prepose --sd15 DIR \\
        --json FILE --page docs/training.md

DIR is a checkpoint of random weights (`prepose bench weights sd15 --out DIR`). Build the example first:
`cargo build --release -p prepose-models --example training_step`. Each row is a process of its own:

- `network`: the UNet in f32 with branches of the rank beside its attention, on numbers of no meaning, and a plain descent;
  PyTorch's with and without `enable_gradient_checkpointing`;
- `train`: the whole of `prepose train lora` on pictures: text encoder, autoencoder, AdamW, the state, the program itself.

`peak` is the most that the process held at once, mapped files included. Seconds are the processor's, all threads together, and
those of the clock; the page has the clock's, the least of the steps after the first. Rows that are in FILE stay there unless --only names
them.
"""

import argparse
import datetime
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START, END = "<!-- measured -->", "<!-- /measured -->"
TOKENS = 77
# Name, batch, side of the latents, rank, steps.
NETWORKS = {"toybox": (12, 16, 4, 8), "sd15": (1, 64, 16, 6)}
SIDES = ("here", "here, recomputed", "pytorch", "pytorch, recomputed", "train", "train, recomputed")
LABELS = {
    "here": "the network",
    "here, recomputed": "the network, `--recompute`",
    "pytorch": "PyTorch",
    "pytorch, recomputed": "PyTorch, `gradient_checkpointing`",
    "train": "`prepose train lora`",
    "train, recomputed": "`prepose train lora --recompute`",
}


def torch_steps(given):
    import torch
    from diffusers import UNet2DConditionModel
    from peft import LoraConfig

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    unet = UNet2DConditionModel.from_config(UNet2DConditionModel.load_config(given.folder))
    unet.requires_grad_(False)
    targets = ["to_q", "to_k", "to_v", "to_out.0"]
    unet.add_adapter(LoraConfig(r=given.rank, lora_alpha=given.rank, target_modules=targets))
    unet.train()
    if given.memory == "recompute":
        unet.enable_gradient_checkpointing()
    optimizer = torch.optim.SGD([p for p in unet.parameters() if p.requires_grad], lr=1e-4)
    batch, size = given.batch, given.size
    sample = torch.randn(batch, unet.config.in_channels, size, size)
    target = torch.randn(batch, unet.config.out_channels, size, size)
    context = torch.randn(batch, TOKENS, unet.config.cross_attention_dim)
    timesteps = torch.tensor([i * 997 // batch for i in range(batch)])
    cpu, wall = [], []
    for _ in range(given.repeat):
        before, began = time.process_time(), time.perf_counter()
        loss = (unet(sample, timesteps, context).sample - target).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        cpu.append(time.process_time() - before)
        wall.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu_seconds": cpu, "wall_seconds": wall, "peak_bytes": peak}))


def provide(folder, side):
    """Four pictures with captions."""
    import numpy as np
    from PIL import Image

    numbers = np.random.default_rng(0)
    for i in range(4):
        picture = numbers.integers(0, 256, (side, side, 3), dtype=np.uint8)
        Image.fromarray(picture).save(folder / f"{i}.png")
        (folder / f"{i}.txt").write_text("a dog and a cat")


def run(command, threads, cwd=None):
    """What the command printed, and the most that it held."""
    environment = os.environ | {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"}
    work = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=cwd, text=True)
    said = work.stdout.read()
    _, status, used = os.wait4(work.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return said, used


def measure(given, network, side):
    batch, size, rank, repeat = NETWORKS[network]
    memory = "recompute" if side.endswith("recomputed") else "keep"
    which = side.split(",")[0]
    if which == "train":
        return product(given, network, memory)
    folder = "weights/toybox/unet" if network == "toybox" else str(given.sd15 / "unet")
    program = [str(given.step)] if which == "here" else [sys.executable, __file__, "--torch"]
    options = dict(train="lora", memory=memory, batch=batch, size=size, rank=rank, repeat=repeat)
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    words = [folder, *words] if which == "here" else ["--folder", folder, *words]
    said, used = run([*program, *words], given.threads)
    found = json.loads(said.strip().splitlines()[-1])
    return {name: found[name] for name in ("cpu_seconds", "wall_seconds")} | {"peak": used.ru_maxrss * 1024}


def product(given, network, memory):
    batch, size, rank, repeat = NETWORKS[network]
    checkpoint = network if network == "toybox" else str(given.sd15)
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        provide(data, 8 * size)
        command = [str(given.prepose), "train", "lora", "data", "--out", "out", "--checkpoint", checkpoint, "--device", "flex"]
        command += ["--resolution", str(8 * size), "--batch", str(min(batch, 4)), "--rank", str(rank), "--layers", "attention"]
        command += ["--steps", str(repeat), "--json"] + ["--recompute"] * (memory == "recompute")
        said, used = run(command, given.threads, cwd=scratch)
    steps = [line["seconds"] for line in map(json.loads, said.splitlines()) if line["event"] == "step"]
    return {"wall_seconds": steps, "peak": used.ru_maxrss * 1024}


def page(rows):
    text = ["| network | | peak memory | seconds a step |", "| --- | --- | ---: | ---: |"]
    for row in rows:
        cells = [row["network"], LABELS[row["side"]], f"{row['peak'] / 1e9:.2f} GB", f"{min(row['wall_seconds'][1:]):.2f}"]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("step", "prepose", "sd15"):
        parser.add_argument(f"--{name}", type=lambda path: Path(path).resolve())
    parser.add_argument("--threads", default="1")
    parser.add_argument("--only", nargs="*", help="these rows alone, as network or as network/side")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help=f"what stands between {START} and {END} is replaced")
    parser.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    for name, kind in (("folder", str), ("train", str), ("memory", str), ("batch", int), ("size", int), ("rank", int), ("repeat", int)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.torch:
        torch_steps(given)
        return
    found = {}
    if given.json.exists():
        found = {(row["network"], row["side"]): row for row in json.loads(given.json.read_text())}
    keys = [(network, side) for network in NETWORKS for side in SIDES]
    for network, side in keys:
        named = given.only is None or {network, f"{network}/{side}"} & set(given.only)
        if not named or (network == "sd15" and not given.sd15):
            continue
        day = datetime.date.today().isoformat()
        row = dict(network=network, side=side, day=day, threads=int(given.threads)) | measure(given, network, side)
        found[network, side] = row
        print(json.dumps(row), flush=True)
        given.json.write_text(json.dumps([found[key] for key in keys if key in found], indent=1) + "\n")
    if given.page:
        before, rest = given.page.read_text().split(START)
        rows = [found[key] for key in keys if key in found]
        given.page.write_text(f"{before}{START}\n{page(rows)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
