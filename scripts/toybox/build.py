"""Builds the toybox checkpoint: all stages, one after the other, each resumable.

    python scripts/toybox/build.py --prepose target/release/prepose --out DIR

A stage that was interrupted goes on from its last save; a stage that is finished is skipped. PyTorch trains the first ones for some minutes each,
a proposal for two CPU cores of their own, then `prepose train unet` trains the UNet for some steps; `--pace 2` doubles all of it, and
`--pace 0.01` only tries whether everything runs. What the committed weights had is on their card.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# The UNet comes after these, since it needs the text encoder and the encoder. Decoder and encoder need nothing.
STAGES = {
    "text_encoder": (["text_encoder.py"], 8),
    "decoder": (["autoencoder.py", "decoder"], 60),
    "encoder": (["autoencoder.py", "encoder"], 10),
}
DRAWINGS, STEPS = 32000, 24000
UNET = ["--batch", 24, "--rate", "8e-4", "--schedule", "cosine", "--warmup", 100, "--ema", 0.999, "--layout-share", 0.5,
        "--dropout", 0.08, "--keep-every", 200]


def run(*command):
    command = [str(word) for word in command]
    print("+", *command, flush=True)
    subprocess.run(command, check=True)


def script(name, *arguments):
    run(sys.executable, HERE / name, *arguments)


def once(out, name, *command):
    """Runs what has not been run yet."""
    done = out / f"{name}.done"
    if not done.exists():
        script(*command)
        done.touch()


def build(prepose, out, pace):
    out.mkdir(parents=True, exist_ok=True)
    for name, (command, minutes) in STAGES.items():
        once(out, name, *command, "--out", out, "--minutes", minutes * pace)
    once(out, "start", "assemble.py", "--out", out, "--folder", out / "start")
    drawings = round(DRAWINGS * min(pace, 1))
    once(out, "drawings", "corpus.py", out / "drawings", "--count", drawings, "--seed", 71, "--pictures")
    steps = ["--steps", round(STEPS * pace)]
    run(prepose, "train", "unet", out / "drawings", "--checkpoint", out / "start", "--out", out / "unet", *steps, *UNET)
    script("assemble.py", "--out", out, "--folder", out / "toybox", "--unet", out / "unet/checkpoint/unet")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepose", type=Path, required=True, help="the program")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pace", type=float, default=1.0)
    args = parser.parse_args()
    build(args.prepose, args.out, args.pace)
