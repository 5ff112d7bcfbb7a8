"""How fast `prepose corpus` reads captions, and in how much memory.

    python scripts/bench/corpus.py target/release/prepose --count 5000000            # JSON lines
    python scripts/bench/corpus.py target/release/prepose --count 5000000 --parquet  # needs pyarrow

The captions are made up: one in nine names two things that are joined, one in seven is of a shop, the others are of other kinds.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("cat dog horse cow bird car bicycle bus boat chair couch bed table lamp vase pizza cake apple guitar umbrella woman man "
         "girl boy tree house").split()
LOOKS = "red blue small big old wooden happy white black green".split()
PLACES = ["in a park", "on the beach", "at night", "in the kitchen", "under a blue sky", "by the river", "with mountains in the background"]
SPAM = ["Buy {n} online - free shipping", "{n} stock photo royalty free", "Download {n} wallpaper HD", "{n} | Shop at www.example.com"]
OTHERS = ["Portrait of {a} {p}", "The best {n} recipe for your family dinner", "A beautiful {a} {n} {p}",
          "Abstract background texture number {k}", "How to paint a {n} in ten easy steps", "{a} {n}",
          "Annual report of the committee for the year {k}", "View of the old town and the harbour {p}",
          "A man holding a {n} and smiling {p}", "Company logo design with letters and shapes"]


def caption(rng, number):
    share, one, two, look = rng.random(), rng.choice(NAMES), rng.choice(NAMES), rng.choice(LOOKS)
    if share < 0.06:
        return f"a {one} and a {two}"
    if share < 0.09:
        return f"a {look} {one} next to a {two} {rng.choice(PLACES)}"
    if share < 0.11:
        return f"A {one} with a {two}"
    form = rng.choice(SPAM if share < 0.25 else OTHERS)
    return form.format(n=one, a=look, p=rng.choice(PLACES), k=number % 3000)


def write_lines(path, count, rng):
    with open(path, "w") as file:
        for number in range(count):
            text = json.dumps(caption(rng, number))
            file.write(f'{{"url": "https://example.org/{number}.jpg", "caption": {text}, "width": 512, "height": 384}}\n')


def write_parquet(path, count, rng):
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("URL", pa.string()), ("TEXT", pa.string()), ("WIDTH", pa.int32()), ("HEIGHT", pa.int32())])
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for first in range(0, count, 100_000):
            numbers = range(first, min(first + 100_000, count))
            columns = [[f"https://example.org/{n}.jpg" for n in numbers], [caption(rng, n) for n in numbers],
                       [512] * len(numbers), [384] * len(numbers)]
            arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types)]
            writer.write_table(pa.table(arrays, schema=schema))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prepose", type=Path)
    parser.add_argument("--count", type=int, default=5_000_000)
    parser.add_argument("--parquet", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("captions.parquet" if args.parquet else "captions.jsonl")
        (write_parquet if args.parquet else write_lines)(path, args.count, random.Random(1))
        start, load = time.monotonic(), os.getloadavg()[0]
        command = [args.prepose.resolve(), "-q", "corpus", path, "--out", Path(folder) / "survey", "--json"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        seconds = time.monotonic() - start
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        pairs = next(row["count"] for row in report["funnel"] if row["step"] == "pairs")
        print(f"{args.count} captions ({path.stat().st_size / 1e6:.0f} MB), {pairs} pairs: {seconds:.1f} s, "
              f"{60 * args.count / seconds / 1e6:.1f} million a minute, {memory:.0f} MiB at most, "
              f"{os.cpu_count()} cores, load {load:.1f} before")


if __name__ == "__main__":
    main()
