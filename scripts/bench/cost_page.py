"""Writes docs/guidance/cost.md from measurements; no number in it is typed.

    prepose bench sheet --checkpoints toybox --only step,guided --batches 1 --repeat 30 --json > toybox.json
    prepose bench sheet --checkpoints SD15 --only step,guided --batches 1 --repeat 1 --json > sd15.json
    python scripts/bench/cost_page.py --bench "the toybox=toybox.json" "SD1.5=sd15.json" \
        --against benches/results/guidance-cost-DATE.json --out docs/guidance/cost.md
"""

import argparse
import json
from pathlib import Path

HEAD = """# What a guided step costs

`prepose bench sheet --only step,guided` measures it on your device: plain steps and guided steps in turn, in one run.

* A plain step is one UNet call with both halves of classifier-free guidance.
* "10 of 50" is what ten guided steps add to a picture of fifty steps.
* Memory is what a step takes beyond the weights.
* "Cheap layers" stop the network after the way down; "one pass" records the step's own call instead of running another.
"""

AGAINST = """
## Against the usual procedure

The usual code runs the whole network on the conditional half once more, with attention that forms and keeps every map up to 32², and
lets autograd go back through it. Here the pass ends after the last layer that is read, convolutions and linear layers keep nothing,
and self-attention recomputes its scores ([`kernels/NOTES.md`](../../kernels/NOTES.md)). The columns show, ours divided by PyTorch's, the
extra time of a guided step as a share of a plain step of the same engine, and the extra peak memory; same weights, one run
([record](../../benches/results/{name}), by `scripts/bench/guidance_cost.py`; {clock}):

| | layers of the reference | cheapest layers | memory | ours, 10 of 50 | cheapest, 10 of 50 |
| --- | ---: | ---: | ---: | ---: | ---: |
"""


def bench(title, path):
    sheet = json.loads(path.read_text())
    rows = [row for row in sheet["rows"] if row["what"] in ("step", "guided") and row["median"]]
    plain = rows[0]
    lines = [f"\n## {title[0].upper()}{title[1:]}\n",
             f"{plain['size']}×{plain['size']}, batch {plain['batch']}, {plain['dtype']} on {sheet['machine']['device']}; "
             f"medians of {len(plain['seconds'])} steps.\n",
             "| step | s | of a plain step | 10 of 50 | extra memory, MiB |", "| --- | ---: | ---: | ---: | ---: |"]
    for row in rows:
        ratio, memory = row["of_plain_step"] or 1.0, row["extra_bytes"]
        lines.append(f"| {row['variant'] or 'plain'} | {row['median']:.3f} | {ratio:.2f} | {20 * (ratio - 1):+.1f} % | "
                     f"{'?' if memory is None else round(memory / 2**20)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", nargs="+", required=True, help="TITLE=FILE of `prepose bench sheet --only step,guided --json`")
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    text = HEAD
    for item in args.bench:
        title, _, path = item.partition("=")
        text += bench(title, Path(path))
    record = json.loads(args.against.read_text())
    threads = f"{record['threads']} thread{'s' * (record['threads'] > 1)}"
    clock = threads + ("; processor time, because the machine was busy" if record["clock"] == "cpu" else "")
    text += AGAINST.format(name=args.against.name, clock=clock)
    for name, row in record.items():
        if isinstance(row, dict) and "ratios" in row:
            ratios = row["ratios"]
            ours = row["seconds"]["prepose"]
            added = [f"{20 * ours[kind] / ours['plain']:+.1f} %" for kind in ("reference", "cheapest")]
            text += f"| {name} | {ratios['reference']} | {ratios['cheapest']} | {ratios['memory']} | {' | '.join(added)} |\n"
    limits = record["limits"]
    text += f"| limit | {limits['reference']} | {limits['cheapest']} | {limits['memory']} | | |\n"
    args.out.write_text(text)


if __name__ == "__main__":
    main()
