"""The toybox's IP-Adapter.

    python scripts/toybox/ip_adapter.py take TRAINING DATA
    python scripts/toybox/ip_adapter.py measure PREPOSE

`take` copies the adapter of a training on the folder DATA to weights/toybox/ip-adapter and adds its record to the card there. `measure` shows
every thing of the toybox, drawn alone on three grounds, to the program PREPOSE with a caption that names nothing, and writes onto the card
how often the toybox's detector finds it in the picture that is made.
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import corpus
import trained
import world

START, END = "<!-- measured -->", "<!-- /measured -->"
CAPTION, DRAWINGS, LEAST = "a photo", 3, 0.5
SCALES = (0, 0.5, 1)


def drawn(folder):
    """Pictures of each thing alone: (name, path)."""
    from PIL import Image

    rng = random.Random(23)
    for name in world.NAMES:
        for number in range(DRAWINGS):
            path = folder / f"{name.replace(' ', '-')}-{number}.png"
            scene = world.Scene((world.Thing(name, 0, 0),), "single", world.random_background(rng))
            Image.fromarray(world.draw(corpus.alone(scene, rng))).save(path)
            yield name, path


def found(prepose, path, scale, seed):
    """What the detector is sure of in a picture that is made with the one at `path` in sight."""
    made = path.with_name("made.png")
    subprocess.run(
        [prepose, "generate", CAPTION, "--seed", str(seed), "--ip-picture", f"{path},scale={scale}", "--device", "flex", "--out", made, "--quiet"],
        check=True, stdout=subprocess.DEVNULL,
    )
    seen = subprocess.run(
        [prepose, "detect", made, "--min-score", str(LEAST), "--device", "flex"], check=True, capture_output=True, text=True
    ).stdout.splitlines()[0]
    made.unlink()
    return {item.rsplit(" ", 1)[0].strip() for item in seen.split(":", 1)[1].split(",")}


def measure(prepose):
    with tempfile.TemporaryDirectory() as folder:
        shown = list(drawn(Path(folder)))
        rows = [
            (scale, sum(name in found(prepose, path, scale, seed) for seed, (name, path) in enumerate(shown)), len(shown))
            for scale in SCALES
        ]
    text = [
        f"Each of the {len(world.NAMES)} things alone, {DRAWINGS} drawings of each; caption \"{CAPTION}\", every picture its own seed. The thing",
        f"is found by the toybox's detector with a score of at least {LEAST}:",
        "",
        "| scale | pictures | shown thing found | % |",
        "| ---: | ---: | ---: | ---: |",
        *(f"| {scale:g} | {count} | {hits} | {100 * hits / count:.1f} |" for scale, hits, count in rows),
    ]
    card = trained.WEIGHTS / "ip-adapter/README.md"
    before, rest = card.read_text().split(START)
    card.write_text(f"{before}{START}\n" + "\n".join(text) + f"\n{END}{rest.split(END)[1]}")


def take(training, data):
    begin = f"ip-adapter {data} --image-encoder toybox-clip"
    further = f"ip-adapter {data} --ip-adapter {{}},encoder=toybox-clip"
    trained.take("ip-adapter", "ip_adapter.safetensors", Path(training), begin, further)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["take", training, data]:
            take(training, data)
        case ["measure", prepose]:
            measure(prepose)
        case _:
            raise SystemExit(__doc__)
