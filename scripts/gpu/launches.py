#!/usr/bin/env python3
"""Launches of a denoising step by kind of kernel, from the counts of two dry runs of CUDA that differ in their number of steps.

    DRY_DRIVER_STATS=2.json scripts/gpu/dry-run.sh toybox --steps 2
    DRY_DRIVER_STATS=6.json scripts/gpu/dry-run.sh toybox --steps 6
    scripts/gpu/launches.py 2.json 6.json --steps 4

The first run tries kernels, the second takes what was chosen from the file that keeps it: give both the same cache folder
(XDG_CACHE_HOME), and run one of them before the two that count. Prints a Markdown table.
"""

import argparse
import json
import re
from collections import Counter
from pathlib import Path

# A kernel's name up to where the types and the hash of a variant begin.
NAME = re.compile(r"(.+?)(?:_[a-z]+_(?:f16|bf16|f32|u32|size)|_[0-9a-f]{8}|$)")


def launches(path):
    counts = Counter()
    for name, count in json.loads(Path(path).read_text())["kernels"].items():
        counts[NAME.match(name).group(1)] += count
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fewer")
    parser.add_argument("more")
    parser.add_argument("--steps", type=int, required=True, help="by how many steps the runs differ")
    args = parser.parse_args()
    counts = launches(args.more)
    counts.subtract(launches(args.fewer))
    rows = [(count / args.steps, name) for name, count in counts.items() if count]
    print("| kernel | launches a step |\n| --- | ---: |")
    for count, name in sorted(rows, reverse=True):
        print(f"| `{name}` | {count:g} |")
    print(f"| all | {sum(count for count, _ in rows):g} |")


if __name__ == "__main__":
    main()
