"""Puts what a run came to into the README: python scripts/report/tour.py RUN [--readme README.md] [--busy]

RUN is the folder of a finished `prepose run` with a report; its tables and two of its plots go to docs/tour/.
"""

import argparse
import csv
import json
import re
import shutil
from datetime import datetime
from pathlib import Path

PLOTS = ("pass_rate.svg", "abstentions.svg")


def rows(path):
    with path.open(newline="") as file:
        return {row["run"]: row for row in csv.DictReader(file)}


def table(run, busy):
    config = json.loads((run / "run.json").read_text())
    main = {}
    for method in (m["name"] for m in config["methods"]):
        main[method] = rows(run / method / "eval/tables/main_results.csv")[method]
        scores = [json.loads(line) for line in (run / method / "eval/scores.jsonl").read_text().splitlines()]
        main[method]["calls"] = sum(s["unet_calls"] + s["guided_calls"] for s in scores) / len(scores)
    lines = ["| method | PASS, % of all | decided, % | PASS, % of the decided | prompts with a PASS, % | UNet passes a picture |",
             "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for method, row in main.items():
        percent = [f"{100 * float(row[key]):.1f}" for key in ("pass_rate", "coverage", "pass_rate_cond", "prompt_pass_rate")]
        lines.append(f"| {method} | {' | '.join(percent)} | {row['calls']:.0f} |")
    notes = [json.loads(path.read_text()) for path in sorted((run / "provenance").iterdir())]
    minutes, threads = sum(note["seconds"] for note in notes) / 60, notes[0]["threads"]
    count = sum(int(row["samples"]) for row in main.values())
    return "\n".join(lines) + f"\n\n{count:,} pictures in {minutes:.0f} minutes on {threads} cores{', beside other work' if busy else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    parser.add_argument("--busy", action="store_true", help="other work shared the machine")
    args = parser.parse_args()
    docs = args.readme.parent / "docs/tour"
    docs.mkdir(parents=True, exist_ok=True)
    for file in sorted((args.run / "report/tables").glob("*.csv")):
        shutil.copy(file, docs / file.name)
    for name in PLOTS:
        shutil.copy(args.run / "report/plots" / name, docs / name)
    when = datetime.fromtimestamp((args.run / "run.json").stat().st_mtime).date()
    block = (f"{table(args.run, args.busy)} ({when}; [all tables](docs/tour)).\n\n"
             "![Pass rates with bootstrap intervals](docs/tour/pass_rate.svg)\n"
             "![Verdicts, and reasons to abstain](docs/tour/abstentions.svg)")
    text, count = re.subn("<!-- tour -->.*?<!-- /tour -->", lambda _: f"<!-- tour -->\n{block}\n<!-- /tour -->",
                          args.readme.read_text(), flags=re.S)
    if count != 1:
        raise SystemExit(f"{args.readme} has no place marked <!-- tour --> … <!-- /tour -->")
    args.readme.write_text(text)


if __name__ == "__main__":
    main()
