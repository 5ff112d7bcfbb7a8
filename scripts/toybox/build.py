"""Builds the toybox checkpoint: all stages, one after the other, each resumable.

    python scripts/toybox/build.py --out DIR

A stage that was interrupted goes on from its last save; a stage that is finished is skipped. The
minutes are a proposal for two CPU cores of their own; `--pace 2` doubles them. (The committed weights had far
less, see their card: the UNet's loss was still falling fast when their time was up.)
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# In this order, since the UNet needs the text encoder. Decoder, encoder and judge need nothing.
STAGES = {
    "text_encoder": (["text_encoder.py"], 8),
    "unet": (["denoiser.py"], 120),
    "decoder": (["autoencoder.py", "decoder"], 40),
    "encoder": (["autoencoder.py", "encoder"], 5),
    "judge": (["judge.py"], 10),
}


def run(script, *arguments):
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    print("+", *command, flush=True)
    subprocess.run(command, check=True)


def build(out, pace):
    out.mkdir(parents=True, exist_ok=True)
    for name, ((script, *part), minutes) in STAGES.items():
        done = out / f"{name}.done"
        if done.exists():
            continue
        run(script, *part, "--out", out, "--minutes", minutes * pace)
        done.touch()
    run("assemble.py", "--out", out, "--folder", out / "toybox")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pace", type=float, default=1.0)
    args = parser.parse_args()
    build(args.out, args.pace)
