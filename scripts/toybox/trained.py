"""What the toybox takes over from `prepose train`: a file, and the record of how it came about on the card beside it."""

import json
import re
import shutil
import statistics
from pathlib import Path

WEIGHTS = Path(__file__).resolve().parents[2] / "weights/toybox"


def words(recipe):
    """The options of the command that are not its defaults."""
    rate, rule = recipe["rate"], recipe["optimizer"]
    options = {
        "--batch": recipe["batch"],
        "--steps": recipe["steps"],
        "--rate": f"{rate['peak']:g}",
        "--warmup": rate["warmup"],
        "--schedule": rate["decay"],
        "--betas": f"{rule['beta1']:g},{rule['beta2']:g}",
        "--clip": f"{recipe['clip']:g}",
        "--dropout": recipe["dropout"],
        "--layout-share": recipe["timesteps"].get("layout"),
        "--ema": (recipe["average"] or {}).get("decay"),
        "--seed": recipe["seed"],
    }
    return " ".join(f"{name} {value}" for name, value in options.items() if value is not None)


def record(training, command, events=None):
    """What `training`, of `prepose train` with the words of `command`, was asked and came to, as lines of a page; with the file that
    its `--json` printed, how long a step took."""
    settings = json.loads((training / "training.json").read_text())
    log = [json.loads(line) for line in (training / "log.jsonl").read_text().splitlines()]
    tenth = max(len(log) // 10, 1)
    rows = ["| steps | mean loss |", "| ---: | ---: |"]
    for first in range(0, len(log) - tenth + 1, tenth):
        part = log[first : first + tenth]
        rows.append(f"| {part[0]['step']}–{part[-1]['step']} | {sum(step['loss'] for step in part) / len(part):.4f} |")
    samples = sum(step["samples"] for step in log)
    begun = f"{settings['pictures']} pictures, {len(log)} steps, {samples} samples in all"
    if events:
        lines = map(json.loads, Path(events).read_text().splitlines())
        seconds = statistics.median(line["seconds"] for line in lines if line["event"] == "step")
        begun += f", {seconds:.2f} s a step (median)"
    return [
        f"{begun}:",
        "",
        "```",
        f"prepose train {command} {words(settings['recipe'])} --out runs/{training.name}",
        "```",
        "",
        *rows,
    ]


def on_card(card, name, change):
    """Replaces what stands between <!-- name --> and <!-- /name --> on a card by what `change` makes of it."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, rest = card.read_text().split(start)
    text, after = rest.split(end)
    card.write_text(f"{before}{start}\n{change(text.strip())}\n{end}{after}")


def add_record(card, name, lines):
    """Puts a record below those that a card has."""
    on_card(card, name, lambda records: "\n".join([*([records, ""] if records else []), *lines]))


def take(folder, name, training, begin, further):
    """Copies the file `name` of `training` into the toybox's `folder`, and adds its record to the card there. The words of its command are
    `begin` for the first training, and `further` with the file of the one before after that."""
    shutil.copyfile(training / name, WEIGHTS / folder / name)
    card = WEIGHTS / folder / "README.md"
    outs = re.findall(r"--out (runs/\S+)", card.read_text().split("<!-- trained -->")[1].split("<!-- /trained -->")[0])
    command = further.format(f"{outs[-1]}/{name}") if outs else begin
    add_record(card, "trained", record(training, command))
