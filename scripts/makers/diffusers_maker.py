#!/usr/bin/env python3
"""Makes pictures for `prepose run --maker` with any pipeline that diffusers can load (docs/sources.md).

    prepose run visor-5000 --checker frcnn-v2 --out runs/flux \
        --maker "python scripts/makers/diffusers_maker.py black-forest-labs/FLUX.1-dev --dtype bfloat16 --device cuda --batch 4"

A line of JSON a job comes in on standard input, a line a finished picture goes out on standard output. Noise is drawn for each
picture by itself, on the CPU, from its own seed: a picture is the same in any batch and on any device, and for Stable Diffusion
it is the one that prepose makes from that seed. A job with a picture in `image` changes that: by the pipeline itself if it takes
pictures (FLUX.1-Kontext, InstructPix2Pix), else by its image-to-image counterpart, with the same weights.
"""

import argparse
import inspect
import json
import os
import queue
import sys
import threading
import time

# What libraries print must not get between the answers.
ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


def say(**answer):
    ANSWERS.write(json.dumps(answer) + "\n")
    ANSWERS.flush()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder, a single file, or a name on the hub")
    parser.add_argument("--batch", type=int, default=1, help="pictures at a time")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, mps")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--offload", action="store_true", help="keep on the GPU only what is at work (enable_model_cpu_offload)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=JSON", help="a further argument of the pipeline's call")
    return parser.parse_args()


def load(args):
    import torch
    from diffusers import AutoPipelineForText2Image, DiffusionPipeline

    options = {"torch_dtype": getattr(torch, args.dtype)}
    if os.path.isfile(args.model):
        # A single file does not say which pipeline it is for; diffusers finds out for these.
        pipeline = AutoPipelineForText2Image.from_single_file(args.model, **options)
    else:
        pipeline = DiffusionPipeline.from_pretrained(args.model, **options)
    if args.offload:
        pipeline.enable_model_cpu_offload(device=args.device)
    else:
        pipeline.to(args.device)
    # Pictures that were made black would be measured as pictures.
    if getattr(pipeline, "safety_checker", None) is not None:
        pipeline.safety_checker = None
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def changer(pipeline):
    """What changes pictures: the pipeline itself, its image-to-image counterpart, or nothing."""
    from diffusers import AutoPipelineForImage2Image

    if "image" in inspect.signature(pipeline.__call__).parameters:
        return pipeline
    try:
        counterpart = AutoPipelineForImage2Image.from_pipe(pipeline)
    except ValueError:
        return None
    counterpart.set_progress_bar_config(disable=True)
    return counterpart


def read(jobs):
    for line in sys.stdin:
        if line.strip():
            jobs.put(json.loads(line))
    jobs.put(None)


def batches(jobs, most):
    """Jobs that can be made together, as they come; ends when the input does."""
    waiting, ended = [], False
    same = ("width", "height", "steps", "guidance_scale", "negative_prompt", "strength")
    alike = lambda job: (*(job.get(key) for key in same), job.get("image") is None)
    while not ended or waiting:
        if not waiting:
            job = jobs.get()
            if job is None:
                return
            waiting.append(job)
        # Those of a window come at once.
        while not ended and len(waiting) < most:
            try:
                job = jobs.get(timeout=0.05)
            except queue.Empty:
                break
            if job is None:
                ended = True
            else:
                waiting.append(job)
        now = [job for job in waiting if alike(job) == alike(waiting[0])][:most]
        waiting = [job for job in waiting if job not in now]
        yield now


def make(pipeline, change, jobs, extra):
    import torch
    from PIL import Image

    first = jobs[0]
    if first.get("image"):
        pipeline = change
    known = inspect.signature(pipeline.__call__).parameters
    call = {
        "prompt": [job["prompt"] for job in jobs],
        "generator": [torch.Generator("cpu").manual_seed(job["seed"] % 2**64) for job in jobs],
        "width": first.get("width"),
        "height": first.get("height"),
        "num_inference_steps": first.get("steps"),
        "guidance_scale": first.get("guidance_scale"),
    }
    if first.get("negative_prompt"):
        call["negative_prompt"] = [first["negative_prompt"]] * len(jobs)
    if first.get("image"):
        pictures = [Image.open(job["image"]).convert("RGB") for job in jobs]
        size = (call.pop("width"), call.pop("height"))
        if all(size):
            # Where the size is that of the picture, that is what is asked for.
            pictures = [picture.resize(size, Image.Resampling.LANCZOS) for picture in pictures]
        call["image"] = pictures
        # Pipelines that follow instructions have no such share.
        if "strength" in known:
            call["strength"] = first.get("strength")
    unknown = [name for name in call if name not in known]
    if unknown:
        raise ValueError(f"{type(pipeline).__name__} does not take {', '.join(unknown)}")
    # What was not asked for is the pipeline's own choice.
    call = {name: value for name, value in call.items() if value is not None}
    return pipeline(**call, **extra).images


def main():
    args = arguments()
    extra = {name: json.loads(value) for name, _, value in (one.partition("=") for one in args.set)}
    pipeline = load(args)
    name = os.path.basename(os.path.normpath(args.model)) if os.path.exists(args.model) else args.model
    import diffusers

    version = f"diffusers {diffusers.__version__}, {args.dtype}"
    change = changer(pipeline)
    say(type="hello", protocol=1, name=name, version=version, at_once=args.batch, edits=change is not None)
    jobs = queue.Queue()
    threading.Thread(target=read, args=[jobs], daemon=True).start()
    for batch in batches(jobs, args.batch):
        began = time.monotonic()
        try:
            images = make(pipeline, change, batch, extra)
        except Exception as error:
            code = "oom" if "out of memory" in str(error).lower() else "internal"
            for job in batch:
                say(type="error", id=job["id"], code=code, message=f"{type(error).__name__}: {error}")
            continue
        seconds = (time.monotonic() - began) / len(batch)
        for job, image in zip(batch, images):
            path = os.path.join(job["out"], job["id"] + ".png")
            image.convert("RGB").save(path)
            say(type="done", id=job["id"], path=path, seconds=seconds)


if __name__ == "__main__":
    main()
