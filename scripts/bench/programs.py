"""Running programs that measure themselves, one after the other on equal terms."""

import json
import os
import platform
import subprocess
import time
from pathlib import Path

TOYBOX = Path(__file__).resolve().parents[2] / "weights/toybox"


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


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
