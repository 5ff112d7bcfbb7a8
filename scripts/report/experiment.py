"""Puts the results of an experiment's runs into its page: python scripts/report/experiment.py [--busy] PAGE.md RUN...

Each RUN is the folder of a finished `prepose ots` or `prepose psg`; its tables and, of the first, its plots go under "Measured on the
toybox", with the commands that made them.
"""

import argparse
import json
import re
import shlex
import shutil
from pathlib import Path

HEADING = "## Measured on the toybox"


def command(run):
    notes = [json.loads(path.read_text()) for path in sorted((run / "provenance").iterdir())]
    words = [f"runs/{run.name}" if word == str(run) else word for word in notes[0]["command"][1:]]
    return "prepose " + " ".join(map(shlex.quote, words)), notes[0]["started_utc"][:10]


def section(page, runs, busy):
    lines = [HEADING, ""]
    for number, run in enumerate(runs):
        line, day = command(run)
        lines += ["```sh", line, "```", ""]
        for table in sorted((run / "results").glob("*.md")):
            text = re.sub(r"^#+ .*\n+", "", table.read_text().strip(), flags=re.M)
            lines += [text.strip(), ""]
        if number == 0:
            for plot in sorted((run / "results").glob("*.svg")):
                name = plot.name
                shutil.copy(plot, page.with_name(name))
                lines += [f"![{plot.stem.replace('_', ' ')}]({name})"]
            lines += [""]
    beside = ", beside other work on the same machine" if busy else ""
    return "\n".join(lines) + f"\nOn {day}, by the detector that is in the binary{beside}.\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("runs", type=Path, nargs="+", metavar="run")
    parser.add_argument("--busy", action="store_true", help="other work shared the machine")
    args = parser.parse_args()
    page, runs = args.page, args.runs
    text = page.read_text().rstrip() + "\n"
    if HEADING in text:
        before, after = text.split(HEADING, 1)
        # What people wrote under the tables stays, and wants reading again beside the new ones.
        rest = re.search(r"^###? ", after, flags=re.M)
        text = before + section(page, runs, args.busy) + ("\n" + after[rest.start():] if rest else "")
    else:
        text += "\n" + section(page, runs, args.busy)
    page.write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    main()
