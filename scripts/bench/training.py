#!/usr/bin/env python3
"""Seconds of a training step on the CPU, here and in PyTorch (diffusers, PEFT), in turns:

    python scripts/bench/training.py target/release/examples/training_step weights/toybox/unet [--train lora] [--threads 2] [--turns 3]

prints a line of JSON for each side and turn, with the seconds of the clock and those of the processor, then the ratios of the
least. Build the example first: `cargo build --release --workspace --example training_step`.
"""

import argparse
import json
import os
import subprocess
import sys
import time

TOKENS = 77


def steps(folder, train, batch, size, rank, repeat, threads):
    import torch
    from diffusers import UNet2DConditionModel
    from peft import LoraConfig

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    unet = UNet2DConditionModel.from_config(UNet2DConditionModel.load_config(folder))
    if train == "lora":
        unet.requires_grad_(False)
        targets = ["to_q", "to_k", "to_v", "to_out.0"]
        unet.add_adapter(LoraConfig(r=rank, lora_alpha=rank, target_modules=targets))
    trained = [p for p in unet.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1e-4)
    sample = torch.randn(batch, unet.config.in_channels, size, size)
    target = torch.randn(batch, unet.config.out_channels, size, size)
    context = torch.randn(batch, TOKENS, unet.config.cross_attention_dim)
    timesteps = torch.tensor([i * 997 // batch for i in range(batch)])
    wall, cpu = [], []
    for _ in range(repeat):
        began, before = time.perf_counter(), time.process_time()
        loss = (unet(sample, timesteps, context).sample - target).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        cpu.append(time.process_time() - before)
        wall.append(time.perf_counter() - began)
    print(json.dumps({"train": train, "batch": batch, "cpu_seconds": cpu, "wall_seconds": wall}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the built example, or 'torch' for PyTorch's side alone")
    parser.add_argument("folder")
    parser.add_argument("--train", choices=["all", "lora"], default="all")
    for name, default in (("batch", 12), ("size", 16), ("rank", 4), ("repeat", 5), ("threads", 1), ("turns", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    if given.program == "torch":
        steps(given.folder, given.train, given.batch, given.size, given.rank, given.repeat, given.threads)
        return
    options = ["--train", given.train]
    for name in ("batch", "size", "rank", "repeat"):
        options += [f"--{name}", str(getattr(given, name))]
    threads = str(given.threads)
    environment = os.environ | {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"}
    clocks = ("wall_seconds", "cpu_seconds")
    least = {clock: {} for clock in clocks}
    for _ in range(given.turns):
        for side, command in (
            ("here", [given.program]),
            ("pytorch", [sys.executable, __file__, "torch"]),
        ):
            command += [given.folder, *options, *(["--threads", threads] if side == "pytorch" else [])]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            line = json.loads(done.stdout.strip().splitlines()[-1])
            print(json.dumps({"side": side, **line}), flush=True)
            for clock in clocks:
                least[clock][side] = min(least[clock].get(side, line[clock][0]), *line[clock])
    for clock, of in least.items():
        print(json.dumps({"least": clock, **of, "ratio": round(of["here"] / of["pytorch"], 3)}))


if __name__ == "__main__":
    main()
