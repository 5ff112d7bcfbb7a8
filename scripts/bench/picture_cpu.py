"""Processor time of a picture by each method of a run: python scripts/bench/picture_cpu.py PREPOSE --methods FILE --out times.json

Each method makes one picture, and then a few more than one, in processes of their own with one thread; the difference is what
the further ones took, loading left out. It is the processor's time (user and system), which others on the machine change little.
Rounds are taken in turn, and the least of each method counts.
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
import tomllib
from pathlib import Path


def spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(prepose, name, args, pictures):
    """Processor seconds of a run of that many pictures."""
    with tempfile.TemporaryDirectory() as folder:
        command = [prepose, "run", "spatialbench-uc", "--every", "4", "--limit", str(pictures), "--seeds", "0", "--method", name]
        command += ["--steps", str(args.steps), "--checker", "none", "--batch", "1", "--out", f"{folder}/run", "--quiet"]
        command += ["--device", "flex"]
        if name not in args.builtin:
            # The methods of the file that are not asked for stay out.
            chosen = Path(folder) / "methods.toml"
            chosen.write_text(args.blocks[name])
            command = [word for word in command if word not in ("--method", name)] + ["--methods", str(chosen)]
        before = spent()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"RAYON_NUM_THREADS": "1"})
        return spent() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prepose")
    parser.add_argument("--methods", type=Path, required=True)
    parser.add_argument("--builtin", nargs="*", default=["prompt-only", "psg"])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--pictures", type=int, default=10, help="beyond the first")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    text = args.methods.read_text()
    names = [method["name"] for method in tomllib.loads(text)["method"]]
    blocks = ["[[method]]" + block for block in text.split("[[method]]")[1:]]
    args.blocks = dict(zip(names, blocks))
    seconds = {}
    for _ in range(args.rounds):
        for name in [*args.builtin, *names]:
            one, more = (run(args.prepose, name, args, pictures) for pictures in (1, 1 + args.pictures))
            seconds.setdefault(name, []).append((more - one) / args.pictures)
            print(name, round(seconds[name][-1], 3), flush=True)
    result = dict(steps=args.steps, pictures=args.pictures, rounds=args.rounds, seconds=seconds)
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
