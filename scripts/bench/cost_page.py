"""Writes the tables of docs/guidance/cost.md anew from the records that the page names; no number in them is typed.

    prepose bench sheet --checkpoints toybox --only step,guided --batches 1 --repeat 30 --json > benches/results/SHEET.json
    python scripts/bench/cost_page.py docs/guidance/cost.md

A table stands between `<!-- sheet SHEET.json -->` and `<!-- /sheet -->`, or, for a record of `guidance_cost.py`, between
`<!-- against RECORD.json -->` and `<!-- /against -->`; records are in benches/results. To measure again, commit a new
record and name it in the page. What the page says around the tables stays as it is.
"""

import argparse
import json
import re
from pathlib import Path

RECORDS = Path(__file__).parents[2] / "benches" / "results"


def sheet(record):
    """The table of `prepose bench sheet --only step,guided --json`."""
    rows = [row for row in record["rows"] if row["what"] in ("step", "guided") and row["median"]]
    plain = rows[0]
    lines = [f"{plain['size']}×{plain['size']}, batch {plain['batch']}, {plain['dtype']} on {record['machine']['device']}; "
             f"medians of {len(plain['seconds'])} steps.\n",
             "| step | s | of a plain step | 10 of 50 | extra memory, MiB |", "| --- | ---: | ---: | ---: | ---: |"]
    for row in rows:
        ratio, memory = row["of_plain_step"] or 1.0, row["extra_bytes"]
        lines.append(f"| {row['variant'] or 'plain'} | {row['median']:.3f} | {ratio:.2f} | {20 * (ratio - 1):+.1f} % | "
                     f"{'?' if memory is None else round(memory / 2**20)} |")
    return lines


def against(record):
    """The table of a record of `guidance_cost.py`."""
    lines = ["| | layers of the reference | cheapest layers | memory | ours, 10 of 50 | cheapest, 10 of 50 |",
             "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, row in record.items():
        if isinstance(row, dict) and "ratios" in row:
            ratios = row["ratios"]
            ours = row["seconds"]["prepose"]
            added = [f"{20 * ours[kind] / ours['plain']:+.1f} %" for kind in ("reference", "cheapest")]
            lines.append(f"| {name} | {ratios['reference']} | {ratios['cheapest']} | {ratios['memory']} | {' | '.join(added)} |")
    limits = record["limits"]
    return [*lines, f"| limit | {limits['reference']} | {limits['cheapest']} | {limits['memory']} | | |"]


TABLES = {"sheet": sheet, "against": against}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page

    def table(found):
        kind, name = found.groups()
        record = json.loads((RECORDS / name).read_text(encoding="utf-8"))
        return "\n".join([f"<!-- {kind} {name} -->", *TABLES[kind](record), f"<!-- /{kind} -->"])

    text, count = re.subn(r"<!-- (sheet|against) (\S+) -->.*?<!-- /\1 -->", table, page.read_text(encoding="utf-8"), flags=re.S)
    if not count:
        raise SystemExit(f"{page} has no table marked <!-- sheet RECORD.json --> … <!-- /sheet -->")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
