#!/usr/bin/env python3
"""A training killed at random instants, and one that was not: are their files the same to the byte?

    kills.py --prepose target/release/prepose DATA [--kind lora] [--kills 20] [--steps 200] -- OPTIONS OF `prepose train KIND`

DATA is what the kind trains on; of `steer` a run, and its maps are recorded once, before anything is killed.
"""

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = {
    "lora": ("lora.safetensors", "pytorch_lora_weights.safetensors"),
    "gligen": ("gligen.safetensors", "gligen_diffusers.safetensors"),
    "ip-adapter": ("ip_adapter.safetensors",),
    "steer": ("steer.safetensors", "tried.jsonl"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepose", type=Path, required=True)
    parser.add_argument("data", type=Path)
    parser.add_argument("--kind", choices=FILES, default="lora")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    own, _, options = " ".join(sys.argv[1:]).partition(" -- ")
    args = parser.parse_args(own.split())
    args.prepose = args.prepose.resolve()
    rng = random.Random(args.seed)
    steps, data = ("--train-steps", ["--pictures", str(args.data)]) if args.kind == "steer" else ("--steps", [str(args.data)])
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)

        def command(out):
            return [str(args.prepose), "--quiet", "train", args.kind, *data, "--device", "flex", steps, str(args.steps),
                    "--cache", str(scratch / "cache"), "--out", str(scratch / out), *options.split()]

        def seconds(out):
            began = time.monotonic()
            subprocess.run(command(out), check=True)
            return time.monotonic() - began

        if args.kind == "steer":
            seconds("maps")
        whole = seconds("calm")
        hit = 0
        for _ in range(args.kills):
            child = subprocess.Popen(command("killed"))
            # The twenty together last longer than the training, so that they come at all of its places.
            time.sleep(rng.uniform(0.02, 0.12) * whole)
            hit += child.poll() is None
            child.kill()
            child.wait()
        rest = seconds("killed")
        print(f"{whole:.1f} s without a kill; {hit} of {args.kills} kills hit the training; {rest:.1f} s to its end after the last")
        same = True
        for name in ("state.safetensors", *FILES[args.kind], "log.jsonl"):
            digests = [hashlib.sha256((scratch / out / name).read_bytes()).hexdigest() for out in ("calm", "killed")]
            same &= digests[0] == digests[1]
            print(f"{name}: {'the same' if digests[0] == digests[1] else 'DIFFERENT'} {digests[1][:16]}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
