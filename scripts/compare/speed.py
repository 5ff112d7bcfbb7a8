#!/usr/bin/env python3
"""prepose and diffusers in turn on the same weights, threads and seed, on the CPU.

    speed.py --prepose target/release/prepose --sd15 /scratch/sd15 --json benches/results/cpu.json

Three measurements: toybox 50 steps (the whole process, and the generation alone), one UNet call of SD1.5 at 512² with
a batch of one and of two. The programs take turns and the fastest run of each counts, so that other work on the
machine weighs on both alike. `--sd15` is a checkpoint that full_size.py made.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOYBOX = Path(__file__).resolve().parents[2] / "weights/toybox"
PROMPT = "a dog to the left of a cat"


def environment(threads):
    count = str(threads)
    return dict(os.environ, OMP_NUM_THREADS=count, MKL_NUM_THREADS=count, RAYON_NUM_THREADS=count, HF_HUB_OFFLINE="1")


def run(command, threads):
    """The last JSON line that the command prints, and how long the whole process took."""
    start = time.perf_counter()
    done = subprocess.run(command, env=environment(threads), check=True, capture_output=True, text=True)
    wall = time.perf_counter() - start
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]), wall


def toybox_by_prepose(args):
    with tempfile.TemporaryDirectory() as scratch:
        command = [str(args.prepose), "generate", PROMPT, "--checkpoint", str(args.toybox), "--device", "flex"]
        command += ["--dtype", "f32", "--seed", "1", "--steps", "50", "--guidance-scale", "4", "--scheduler", "ddim"]
        command += ["--json", "-o", str(Path(scratch) / "picture.png")]
        report, wall = run(command, args.threads)
    return {"process": wall, "generate": report["seconds"]["batch"]}


def toybox_by_diffusers(args):
    report, wall = run([sys.executable, __file__, "worker-toybox", str(args.toybox)], args.threads)
    return {"process": wall, "generate": report["seconds"]}


def worker_toybox(folder):
    """In a process of its own: its import and loading times count towards `process`."""
    import torch
    from diffusers import DDIMScheduler, StableDiffusionPipeline

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    pipe = StableDiffusionPipeline.from_pretrained(folder, dtype=torch.float32)
    pipe.scheduler = DDIMScheduler.from_config(pipe.scheduler.config)
    pipe.set_progress_bar_config(disable=True)
    start = time.perf_counter()
    generator = torch.Generator().manual_seed(1)
    picture = pipe(PROMPT, num_inference_steps=50, guidance_scale=4.0, generator=generator).images[0]
    with tempfile.TemporaryDirectory() as scratch:
        picture.save(Path(scratch) / "picture.png")
    print(json.dumps({"seconds": time.perf_counter() - start}))


def unet_by_prepose(args, batch):
    command = [str(args.prepose), "bench", "unet", "--checkpoint", str(args.sd15), "--size", str(args.size)]
    command += ["--batch", str(batch), "--repeat", str(args.repeat), "--device", "flex", "--dtype", "f32", "--json"]
    return {"call": min(run(command, args.threads)[0]["seconds"])}


def unet_by_diffusers(args, batch):
    command = [sys.executable, __file__, "worker-unet", str(args.sd15), str(args.size), str(batch), str(args.repeat)]
    return {"call": min(run(command, args.threads)[0]["seconds"])}


def worker_unet(folder, size, batch, repeat):
    import torch
    from diffusers import UNet2DConditionModel

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    unet = UNet2DConditionModel.from_pretrained(folder, subfolder="unet", dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    sample = torch.randn(int(batch), 4, int(size) // 8, int(size) // 8, generator=generator)
    context = torch.randn(int(batch), 77, unet.config.cross_attention_dim, generator=generator)
    seconds = []
    with torch.inference_mode():
        for _ in range(int(repeat) + 1):
            start = time.perf_counter()
            unet(sample, 500, context)
            seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds[1:]}))


def in_turn(args, name, ours, theirs, *more):
    """`rounds` runs of each, alternating; the fastest of each."""
    runs = {"prepose": [], "diffusers": []}
    for _ in range(args.rounds):
        runs["prepose"].append(ours(args, *more))
        runs["diffusers"].append(theirs(args, *more))
    result = {}
    for measure in runs["prepose"][0]:
        mine, other = (min(run[measure] for run in runs[who]) for who in ("prepose", "diffusers"))
        result[measure] = {"prepose": round(mine, 3), "diffusers": round(other, 3), "ratio": round(mine / other, 3)}
        print(f"{name}, {measure}: prepose {mine:.2f} s, diffusers {other:.2f} s, ratio {mine / other:.2f}", flush=True)
    return result


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main():
    workers = {"worker-toybox": worker_toybox, "worker-unet": worker_unet}
    if len(sys.argv) > 1 and sys.argv[1] in workers:
        return workers[sys.argv[1]](*sys.argv[2:])

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepose", type=Path, required=True)
    parser.add_argument("--toybox", type=Path, default=TOYBOX)
    parser.add_argument("--sd15", type=Path, help="a full-size checkpoint; without it the toybox alone is measured")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=2, help="UNet calls in each run, after one that does not count")
    parser.add_argument("--json", type=Path, help="write the result here")
    args = parser.parse_args()

    import diffusers
    import torch

    result = {"threads": args.threads, "cpu": processor(), "torch": torch.__version__}
    result["diffusers"] = diffusers.__version__
    name = "toybox, 50 steps"
    result[name] = in_turn(args, name, toybox_by_prepose, toybox_by_diffusers)
    if args.sd15:
        for batch in (1, 2):
            name = f"SD1.5 UNet at {args.size}², batch {batch}"
            result[name] = in_turn(args, name, unet_by_prepose, unet_by_diffusers, batch)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
