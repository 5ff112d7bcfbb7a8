#!/usr/bin/env python3
"""One call of a UNet in f32 and in bf16 on the CPU: prepose, PyTorch and, where it is installed, OpenVINO, in turns.

    prepose bench weights sd15 -o /scratch/sd15
    cargo build --release -p prepose-models --example guidance_cost
    unet_types.py --bench target/release/examples/guidance_cost --unet /scratch/sd15/unet --json benches/results/FILE

A call is both halves of classifier-free guidance on latents of `--size`, all sides on the same numbers. Each side runs in a
process of its own, `--rounds` times in turn with the others; the fastest call counts. Memory is the most that the process
held after its weights were there; OpenVINO is measured on a model that was converted before. Errors are against PyTorch's
f32: the largest as a share of the largest element, and the root of the mean square as a share of that of the elements.

Exit code 1 if bf16 takes more than `--limit` (0.55) of the time of our own f32, or if the root of its mean square error is
larger than that of PyTorch's bf16. (The largest of some ten thousand errors is a matter of chance.)
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from programs import processor, run

TOKENS = 77


def memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def network(folder, dtype):
    import torch
    from diffusers import UNet2DConditionModel

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    return UNet2DConditionModel.from_pretrained(folder, torch_dtype=dtype).eval(), dtype


def give(folder, size, path):
    """The numbers that every side gets."""
    import torch
    from safetensors.torch import save_file

    unet, _ = network(folder, "bf16")
    generator = torch.Generator().manual_seed(0)
    sample = torch.randn(2, unet.config.in_channels, int(size), int(size), generator=generator)
    context = torch.randn(2, TOKENS, unet.config.cross_attention_dim, generator=generator)
    save_file({"sample": sample, "context": context}, path)
    print(json.dumps({"parameters": sum(p.numel() for p in unet.parameters())}))


def convert(folder, given, path):
    import openvino
    import torch
    from safetensors.torch import load_file

    unet, _ = network(folder, "f32")

    class Call(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.unet = unet

        def forward(self, sample, timestep, context):
            return self.unet(sample, timestep, context, return_dict=False)[0]

    numbers = load_file(given)
    example = (numbers["sample"], torch.tensor(500), numbers["context"])
    openvino.save_model(openvino.convert_model(Call(), example_input=example), path, compress_to_fp16=False)
    print(json.dumps({}))


def measured(call, repeat, result):
    """Times `call`, which gives an array, and stores its last result."""
    seconds, cpu = [], []
    for _ in range(int(repeat) + 1):
        start, used = time.perf_counter(), time.process_time()
        out = call()
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    out.astype("<f4").tofile(result)
    print(json.dumps({"seconds": seconds[1:], "cpu": cpu[1:], "process": memory("VmHWM")}))


def by_torch(folder, dtype, given, result, repeat):
    import torch
    from safetensors.torch import load_file

    unet, dtype = network(folder, dtype)
    numbers = load_file(given)
    sample, context = numbers["sample"].to(dtype), numbers["context"].to(dtype)
    Path("/proc/self/clear_refs").write_text("5")

    def call():
        with torch.inference_mode():
            return unet(sample, 500, context, return_dict=False)[0].float().numpy()

    measured(call, repeat, result)


def by_openvino(model, dtype, given, result, repeat):
    import openvino
    from safetensors.numpy import load_file

    numbers = load_file(given)
    hints = {"INFERENCE_PRECISION_HINT": dtype, "INFERENCE_NUM_THREADS": os.environ["OMP_NUM_THREADS"]}
    compiled = openvino.Core().compile_model(model, "CPU", hints)
    Path("/proc/self/clear_refs").write_text("5")
    inputs = [numbers["sample"], 500, numbers["context"]]
    measured(lambda: compiled(inputs)[0], repeat, result)


def errors(path, reference):
    import numpy as np

    got, want = (np.fromfile(file, "<f4").astype("f8") for file in (path, reference))
    off = got - want
    largest = abs(off).max() / abs(want).max()
    return [float(f"{value:.2e}") for value in (largest, np.sqrt((off**2).mean() / (want**2).mean()))]


def commands(args, scratch):
    """How each side is started with a file for its result."""
    given, repeat = str(scratch / "given.safetensors"), str(args.repeat)
    sides = {}
    for dtype in ("f32", "bf16"):
        ours = [str(args.bench), str(args.unet), "--variant", "plain", "--size", str(args.size), "--dtype", dtype]
        ours += ["--given", given, "--repeat", repeat, "--result"]
        sides["prepose", dtype] = lambda result, ours=ours: [*ours, result]
        if args.sides != "prepose":
            sides["torch", dtype] = lambda result, dtype=dtype: worker("torch", args.unet, dtype, given, result, repeat)
    if args.sides == "all" and importlib.util.find_spec("openvino"):
        model = str(scratch / "model.xml")
        print("openvino: converting", file=sys.stderr, flush=True)
        run(worker("convert", args.unet, given, model), args.threads)
        for dtype in ("f32", "bf16"):
            sides["openvino", dtype] = lambda result, dtype=dtype: worker("openvino", model, dtype, given, result, repeat)
    return sides


def worker(*words):
    return [sys.executable, __file__, "worker", *map(str, words)]


def main():
    if sys.argv[1:2] == ["worker"]:
        kinds = {"give": give, "convert": convert, "torch": by_torch, "openvino": by_openvino}
        kinds[sys.argv[2]](*sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, required=True, help="the built example guidance_cost")
    parser.add_argument("--unet", type=Path, required=True, help="a UNet's folder as diffusers writes it")
    parser.add_argument("--sides", choices=["all", "torch", "prepose"], default="all")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu where others work on the machine")
    parser.add_argument("--limit", type=float, default=0.55)
    parser.add_argument("--json", type=Path)
    for name, default in (("size", 64), ("threads", os.cpu_count()), ("rounds", 3), ("repeat", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        run(worker("give", args.unet, args.size, scratch / "given.safetensors"), args.threads)
        sides = commands(args, scratch)
        for turn in range(args.rounds):
            for (who, dtype), command in sides.items():
                report = run(command(str(scratch / f"{who}-{dtype}")), args.threads)[0]
                fastest = min(report["seconds" if args.clock == "wall" else "cpu"])
                row = table.setdefault(f"{who} {dtype}", {"seconds": fastest, "process": 0})
                row["seconds"] = round(min(row["seconds"], fastest), 3)
                row["process"] = max(row["process"], report["process"])
                print(f"{turn + 1}: {who} {dtype}: {fastest:.2f} s", file=sys.stderr, flush=True)
        reference = scratch / ("prepose-f32" if args.sides == "prepose" else "torch-f32")
        for who, dtype in sides:
            table[f"{who} {dtype}"]["errors"] = errors(scratch / f"{who}-{dtype}", reference)
    for name, row in table.items():
        largest, square = row["errors"]
        print(f"{name:14} {row['seconds']:8.3f} s {row['process'] / 1e9:6.2f} GB  errors {largest:.1e} {square:.1e}")
    ratio = table["prepose bf16"]["seconds"] / table["prepose f32"]["seconds"]
    fine = ratio <= args.limit
    print(f"bf16 over f32: {ratio:.2f}, {'within' if fine else 'ABOVE'} {args.limit}")
    if "torch bf16" in table:
        ours, theirs = (table[f"{who} bf16"]["errors"] for who in ("prepose", "torch"))
        closer = ours[1] <= theirs[1]
        fine &= closer
        print(f"errors of bf16, mean square: {'no larger' if closer else 'LARGER'} than PyTorch's")
    if args.json:
        words = {name: value for name, value in vars(args).items() if name not in ("bench", "unet", "json")}
        report = {"processor": processor(), "options": words, "sides": table, "ratio": round(ratio, 3)}
        args.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
