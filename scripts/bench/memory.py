"""What pictures take of the memory on the CPU: python scripts/bench/memory.py PREPOSE [--sd15 DIR] [--sdxl DIR] --json FILE [--page docs/memory.md]

The folders hold checkpoints, as `prepose bench weights` writes them. Each row is a process of its own that makes its pictures in
one step with two threads. `process` is the most that it held, weights, program and mapped files included; `estimate` and `peak`
are the batch's beyond the weights, as prepose says itself. Rows that are in FILE stay there unless they are measured again.
"""

import argparse
import datetime
import json
import os
import subprocess
import tempfile
from pathlib import Path

START, END = "<!-- measured -->", "<!-- /measured -->"
PROMPT = "a dog to the left of a cat"
# Checkpoint, side in pixels, pictures, type.
ROWS = [
    ("sdxl", 1024, 1, "bf16"),
    ("sd15", 512, 1, "bf16"),
    ("sd15", 512, 1, "f32"),
    ("toybox", 256, 1, "f32"),
    ("toybox", 512, 1, "f32"),
    ("toybox", 1024, 1, "f32"),
    ("toybox", 256, 4, "f32"),
    ("toybox", 512, 4, "f32"),
    ("toybox", 512, 8, "f32"),
]


def measure(prepose, folder, row):
    checkpoint, size, pictures, dtype = row
    seeds = f"0-{pictures - 1}" if pictures > 1 else "0"
    command = ["generate", PROMPT, "-c", folder, "--dtype", dtype, "--size", str(size), "--seeds", seeds, "-b", str(pictures)]
    command += ["--steps", "1", "--device", "flex", "--json", "-o", "out/"]
    with tempfile.TemporaryDirectory() as scratch:
        work = subprocess.Popen([prepose, *command], cwd=scratch, stdout=subprocess.PIPE, env=os.environ | {"RAYON_NUM_THREADS": "2"})
        said = work.stdout.read()
        _, status, used = os.wait4(work.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(command)} failed")
        memory = next(line["memory"] for line in map(json.loads, said.splitlines()) if "memory" in line)
    return dict(
        checkpoint=checkpoint,
        size=size,
        pictures=pictures,
        dtype=dtype,
        day=datetime.date.today().isoformat(),
        command=["prepose", *(checkpoint if word == folder else word for word in command)],
        process=used.ru_maxrss * 1024,
        weights=memory["weights_estimate"],
        estimate=memory["work_estimate"],
        peak=memory["work_peak"],
    )


def key(row):
    return row["checkpoint"], row["size"], row["pictures"], row["dtype"]


def page(rows):
    text = ["| checkpoint | side | pictures | type | estimate | measured | the whole process |", "| --- | ---: | ---: | --- | ---: | ---: | ---: |"]
    for row in rows:
        cells = [row["checkpoint"], row["size"], row["pictures"], row["dtype"]]
        cells += [round(row[what] / 1e6) for what in ("estimate", "peak", "process")]
        text.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prepose", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--sd15", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--sdxl", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--only", nargs="*", help="these checkpoints alone")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--page", type=Path, help=f"what stands between {START} and {END} is replaced")
    args = parser.parse_args()
    folders = dict(toybox="toybox", sd15=args.sd15, sdxl=args.sdxl)
    found = {key(row): row for row in json.loads(args.json.read_text())} if args.json.exists() else {}
    for row in ROWS:
        folder = folders[row[0]]
        if folder and (args.only is None or row[0] in args.only):
            found[row] = measure(args.prepose, folder, row)
            print(json.dumps(found[row]), flush=True)
            rows = [found[row] for row in ROWS if row in found]
            args.json.write_text(json.dumps(rows, indent=1) + "\n")
    if args.page:
        before, rest = args.page.read_text().split(START)
        rows = [found[row] for row in ROWS if row in found]
        args.page.write_text(f"{before}{START}\n{page(rows)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
