#!/usr/bin/env python3
"""Registers, spills and shared memory of CUDA kernels that a dry run wrote down, by NVIDIA's assembler.

    DRY_DRIVER_PTX=ptx scripts/gpu/dry-run.sh operations attention norm
    scripts/gpu/registers.py --ptxas ptxas --arch sm_90a ptx

`ptxas` is part of a CUDA toolkit and of `pip install nvidia-cuda-nvcc`. Prints a Markdown table, a row for each kernel over all types and
sizes it was compiled for; exit code 1 if the assembler refuses one.
"""

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The name up to where the types and the hash of a variant begin.
NAME = re.compile(r"Compiling entry function '(.+?)(?:_[a-z]+_(?:f16|bf16|f32|u32|size)|_[0-9a-f]{8}').*")
USE = re.compile(r"(\d+) bytes spill stores.*?Used (\d+) registers(?:.*?(\d+) bytes smem)?", re.S)


def assemble(args, path):
    done = subprocess.run([args.ptxas, "-v", f"-arch={args.arch}", str(path), "-o", "/dev/null"], capture_output=True, text=True)
    if done.returncode:
        return path, done.stderr.strip()
    name, use = NAME.search(done.stderr), USE.search(done.stderr)
    return name.group(1), tuple(int(n or 0) for n in use.groups())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--arch", default="sm_90a")
    args = parser.parse_args()
    kernels, refused = {}, []
    with ThreadPoolExecutor() as pool:
        for name, use in pool.map(lambda path: assemble(args, path), sorted(args.folder.glob("*.ptx"))):
            if isinstance(use, str):
                refused.append(f"{name}: {use}")
            else:
                kernels.setdefault(name, []).append(use)
    print(f"| kernel ({args.arch}) | variants | registers | spilled, bytes | shared memory, bytes |\n| --- | ---: | ---: | ---: | ---: |")
    for name, uses in sorted(kernels.items()):
        spills, registers, shared = zip(*uses)
        print(f"| `{name}` | {len(uses)} | {min(registers)}–{max(registers)} | {max(spills)} | {max(shared)} |")
    print("\n".join(refused), file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
