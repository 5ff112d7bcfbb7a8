#!/usr/bin/env python3
"""The rows of a prepose sheet, measured with diffusers: same weights, shapes, types and device.

    diffusers_sheet.py --like benches/results/flex-2026-11-22.json -o theirs.json [--compile] [--budget 480]

`--like` is the JSON of `prepose bench sheet`; rows that diffusers has no counterpart for (guided steps, search, shares of
the time) are left out. Attention is PyTorch's fused one, weights and latents are channels-last. Every time runs from
after one wait for the device to after the next. With `--compile` the UNet goes through torch.compile, on CUDA with
graphs (mode "reduce-overhead").
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

PROMPT = "a dog to the left of a cat"
TOKENS = 77
FIRST_STEPS = 2
ROWS = ["matmul", "load", "text", "unet", "step", "decode", "picture", "start"]


class Bench:
    """A device with the checkpoint that was last asked for."""

    def __init__(self, device, compile):
        import torch

        self.torch, self.device, self.compile = torch, device, compile
        self.key, self.pipe = None, None

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def dtype(self, row):
        types = {"f32": self.torch.float32, "f16": self.torch.float16, "bf16": self.torch.bfloat16}
        return types[row["dtype"]]

    def load(self, row):
        """Has the row's checkpoint on the device, and no other."""
        key = row["checkpoint"], row["dtype"]
        if self.key == key and row["what"] != "load":
            return self.pipe
        self.key, self.pipe = None, None
        self.free()
        self.pipe = pipeline(checkpoint(row["checkpoint"]), self.dtype(row), self.device)
        if self.compile:
            mode = "reduce-overhead" if self.device == "cuda" else "default"
            self.pipe.unet = self.torch.compile(self.pipe.unet, mode=mode)
        self.key = key
        self.wait()
        return self.pipe

    def free(self):
        if self.device == "cuda":
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats()
        elif Path("/proc/self/clear_refs").exists():
            Path("/proc/self/clear_refs").write_text("5")

    def peak(self):
        if self.device == "cuda":
            return self.torch.cuda.max_memory_reserved()
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def measure(self, row):
        if row["what"] == "load":
            self.free()
            seconds = [self.clock(lambda: self.load(row))]
            return {"seconds": seconds, "peak_bytes": self.peak()}
        with self.torch.inference_mode():
            call = getattr(self, row["what"])(row)
            self.free()
            seconds, cpu = [], []
            for _ in range(row["repeats"] + 1):
                before = time.process_time()
                seconds.append(self.clock(call))
                cpu.append(time.process_time() - before)
            result = {"first_seconds": seconds[0], "seconds": seconds[1:], "peak_bytes": self.peak()}
            return result | ({"cpu_seconds": cpu[1:]} if self.device == "cpu" else {})

    def clock(self, call):
        self.wait()
        start = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - start

    def random(self, row, *shape):
        tensor = self.torch.randn(shape, device=self.device, dtype=self.dtype(row))
        return tensor.contiguous(memory_format=self.torch.channels_last) if tensor.ndim == 4 else tensor

    def matmul(self, row):
        n = row["size"]
        a, b = self.random(row, n, n), self.random(row, n, n)
        return lambda: a @ b

    def text(self, row):
        pipe = self.load(row)
        options = {"device": self.device, "num_images_per_prompt": 1, "do_classifier_free_guidance": True}
        return lambda: pipe.encode_prompt([PROMPT] * row["batch"], **options)

    def network(self, row):
        """Latents of both halves, and the call of the UNet with them."""
        pipe, rows = self.load(row), 2 * row["batch"]
        config, side = pipe.unet.config, row["size"] // pipe.vae_scale_factor
        latents = self.random(row, rows, config.in_channels, side, side)
        context = self.random(row, rows, TOKENS, config.cross_attention_dim)
        added = None
        if config.addition_embed_type == "text_time":
            width = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
            size = [row["size"], row["size"], 0, 0, row["size"], row["size"]]
            ids = self.torch.tensor([size] * rows, device=self.device, dtype=self.dtype(row))
            added = {"text_embeds": self.random(row, rows, width), "time_ids": ids}

        def call(latents, timestep):
            options = {"encoder_hidden_states": context, "added_cond_kwargs": added, "return_dict": False}
            return pipe.unet(latents, timestep, **options)[0]

        return latents, call

    def unet(self, row):
        latents, call = self.network(row)
        timestep = self.torch.tensor(500, device=self.device)
        return lambda: call(latents, timestep)

    def step(self, row):
        """As the pipeline's loop has it: the UNet on both halves, their combination, the scheduler."""
        latents, call = self.network(row)
        scheduler = self.pipe.scheduler
        scheduler.set_timesteps(max(row["steps"], row["repeats"] + 1), device=self.device)
        timesteps, state = iter(scheduler.timesteps), [latents[: row["batch"]]]

        def step():
            timestep = next(timesteps)
            both = scheduler.scale_model_input(self.torch.cat([state[0]] * 2), timestep)
            without, conditional = call(both, timestep).chunk(2)
            noise = without + 5.0 * (conditional - without)
            state[0] = scheduler.step(noise, timestep, state[0], return_dict=False)[0]

        return step

    def decode(self, row):
        pipe = self.load(row)
        side = row["size"] // pipe.vae_scale_factor
        latents = self.random(row, row["batch"], pipe.unet.config.in_channels, side, side)
        vae = pipe.vae
        # The pipeline does so where the autoencoder overflows in f16.
        if row["dtype"] == "f16" and vae.config.force_upcast:
            vae.to(self.torch.float32)
            latents = latents.float()

        def decode():
            for one in latents.split(1):
                vae.decode(one, return_dict=False)

        return decode

    def picture(self, row):
        pipe = self.load(row)
        pipe.vae.to(self.dtype(row))
        options = {"height": row["size"], "width": row["size"], "guidance_scale": 7.5}
        calls = iter([min(FIRST_STEPS, row["steps"])])

        def picture():
            steps = next(calls, row["steps"])
            seeds = [self.torch.Generator().manual_seed(seed) for seed in range(row["batch"])]
            pipe([PROMPT] * row["batch"], num_inference_steps=steps, generator=seeds, **options)

        return picture


def checkpoint(name):
    if name == "toybox":
        return Path(__file__).resolve().parents[2] / "weights/toybox"
    return name


def pipeline(folder, dtype, device):
    import torch
    from diffusers import DDIMScheduler, DiffusionPipeline

    pipe = DiffusionPipeline.from_pretrained(folder, dtype=dtype, local_files_only=True).to(device)
    pipe.scheduler = DDIMScheduler.from_config(pipe.scheduler.config)
    pipe.set_progress_bar_config(disable=True)
    pipe.unet.to(memory_format=torch.channels_last)
    pipe.vae.to(memory_format=torch.channels_last)
    return pipe


def start(row, device):
    """A program that makes one picture, from its start to the file."""
    with tempfile.TemporaryDirectory() as scratch:
        target = str(Path(scratch) / "picture.png")
        begin = time.perf_counter()
        command = [sys.executable, __file__, "--worker", json.dumps(row), device, target]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return {"seconds": [time.perf_counter() - begin]}


def worker(row, device, target):
    import torch

    bench = Bench(device, False)
    pipe = pipeline(checkpoint(row["checkpoint"]), bench.dtype(row), device)
    options = {"height": row["size"], "width": row["size"], "guidance_scale": 7.5}
    options |= {"num_inference_steps": row["steps"], "generator": torch.Generator().manual_seed(1)}
    pipe(PROMPT, **options).images[0].save(target)


def run(args):
    import diffusers
    import torch

    rows = json.loads(args.like.read_text())["rows"]
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    bench, end, results = Bench(device, args.compile), time.monotonic() + args.budget, []
    rows = [row for row in rows if row["what"] in ROWS and not row.get("problem")]
    if args.compile:
        rows = [row for row in rows if row["what"] in ("unet", "step", "picture")]
    # Programs that are started need the memory.
    rows.sort(key=lambda row: row["what"] == "start")
    for row in rows:
        keys = ("what", "variant", "model", "checkpoint", "dtype", "size", "batch", "steps", "repeats")
        row = {key: row[key] for key in keys}
        if time.monotonic() > end:
            result = {"problem": "the time was over"}
        else:
            try:
                if row["what"] == "start":
                    bench.key = bench.pipe = None
                    bench.free()
                    result = start(row, device)
                else:
                    result = bench.measure(row)
            except Exception as error:  # out of memory, a type that is not implemented: the next row may do
                result = {"problem": str(error).splitlines()[0] if str(error) else type(error).__name__}
                bench.key = bench.pipe = None
                bench.free()
        if result.get("seconds"):
            result["median"] = statistics.median(result["seconds"])
        if result.get("cpu_seconds"):
            result["cpu_median"] = statistics.median(result["cpu_seconds"])
        print(row["what"], row["model"], row["dtype"], row["batch"], result.get("median", result.get("problem")),
              file=sys.stderr, flush=True)
        results.append(row | result)
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    machine = {"device": device, "name": name, "torch": torch.__version__, "diffusers": diffusers.__version__}
    machine |= {"threads": torch.get_num_threads(), "compile": args.compile}
    args.output.write_text(json.dumps({"machine": machine, "rows": results}, indent=1) + "\n")


def main():
    if sys.argv[1:2] == ["--worker"]:
        row, device, target = sys.argv[2:]
        return worker(json.loads(row), device, target)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--like", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="[default: cuda where there is one]")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--budget", type=float, default=480, help="seconds; rows that begin later are left out")
    run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
