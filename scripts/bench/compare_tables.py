#!/usr/bin/env python3
"""One JSON and one Markdown table of what both measured: the median over rounds of each round's median.

    compare_tables.py -o OUT --command "..." --ours ours-*.json --theirs theirs-*.json [--compiled compiled-*.json]
"""

import argparse
import json
import statistics
from pathlib import Path

KEYS = ("what", "variant", "model", "dtype", "size", "batch", "steps")


def key(row):
    return tuple(row[name] for name in KEYS)


def medians(files):
    """Row → the medians of all rounds, the peak memory, what went wrong, and the processors' seconds."""
    rounds, memory, problems, worked = {}, {}, {}, {}
    for file in files:
        for row in json.loads(file.read_text())["rows"]:
            if row.get("median") is not None:
                rounds.setdefault(key(row), []).append(row["median"])
                memory[key(row)] = max(memory.get(key(row), 0), row.get("peak_bytes") or 0)
                if row.get("cpu_median"):
                    worked.setdefault(key(row), []).append(row["cpu_median"])
            elif row.get("problem"):
                problems[key(row)] = row["problem"]
    return rounds, memory, problems, worked


def name(row):
    what, variant, *_ , steps = row
    text = {"picture": f"picture, {steps} steps", "start": f"start to picture, {steps} steps"}.get(what, what)
    return f"{text} ({variant})" if variant else text


def seconds(values):
    if not values:
        return "–"
    value = statistics.median(values)
    return f"{1000 * value:.2f} ms" if value < 0.1 else f"{value:.3f} s"


def spread(values):
    if not values or len(values) < 2:
        return ""
    return f" ±{50 * (max(values) - min(values)) / statistics.median(values):.0f} %"


def mebibytes(count):
    return f"{count >> 20} MiB" if count else "?"


def ratio(mine, other):
    return f"{statistics.median(mine) / statistics.median(other):.2f}" if mine and other else "–"


def table(sides):
    ours, theirs, compiled = sides
    head = ["what", "model", "size", "type", "batch", "prepose", "diffusers", "ratio"]
    others = [theirs] + ([compiled] if compiled[0] else [])
    head += ["compiled", "ratio"] * bool(compiled[0])
    head += ["ratio of the processors' time"] * bool(ours[3])
    head += ["memory", "diffusers' memory"]
    lines = ["| " + " | ".join(head) + " |", "| --- | --- | ---: | --- |" + " ---: |" * (len(head) - 4)]
    for row in (row for row in ours[0] if row in theirs[0] or row in compiled[0]):
        _, _, model, dtype, size, batch, _ = row
        mine = ours[0][row]
        cells = [name(row), model or "–", f"{size}²", dtype, str(batch), seconds(mine) + spread(mine)]
        for rounds, _, problems, _ in others:
            other = rounds.get(row)
            cells += [seconds(other) + spread(other) if other else problems.get(row, "–"), ratio(mine, other)]
        if ours[3]:
            cells.append(ratio(ours[3].get(row), theirs[3].get(row)))
        cells += [mebibytes(ours[1].get(row)), mebibytes(theirs[1].get(row))]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="without an ending")
    parser.add_argument("--command", required=True)
    parser.add_argument("--ours", type=Path, nargs="+", required=True)
    parser.add_argument("--theirs", type=Path, nargs="+", required=True)
    parser.add_argument("--compiled", type=Path, nargs="*", default=[])
    args = parser.parse_args()

    sides = [medians(args.ours), medians(args.theirs), medians(args.compiled)]
    sheets = [json.loads(file.read_text()) for file in args.ours]
    others = [json.loads(file.read_text()) for file in args.theirs]
    machine, library = sheets[0]["machine"], others[0]["machine"]
    loads = [sheet["machine"].get("load_average") for sheet in sheets]
    lines = [f"# prepose and diffusers on {machine['name']}, {machine['date']}", ""]
    lines += ["| | |", "| --- | --- |"]
    used = f" up to {machine['instructions']}" if machine.get("instructions") else ""
    lines += [f"| processor | {machine['cpu']}{used}, {machine['cores']} cores, {machine['threads']} threads |"]
    lines += [f"| driver | {machine['driver'] or 'none or unknown'} |"]
    lines += [f"| prepose | {machine['version']} ({machine['git_commit']}), {', '.join(machine['features'])} |"]
    lines += [f"| diffusers | {library['diffusers']}, PyTorch {library['torch']}, {library['threads']} threads |"]
    lines += [f"| load average before each round | {', '.join(map(str, loads))} |"]
    lines += [f"| rounds | {len(sheets)}, in turn |", f"| command | `{args.command}` |", ""]
    lines += ["Medians of the rounds; ± is half of what lies between the fastest and the slowest. The ratio is prepose's"]
    lines += ["time over diffusers': below 1 prepose is faster. Processors' time is what they worked for the program, which counts"]
    lines += ["where others use the machine, too.", ""]
    lines += table(sides) + [""]
    cuts = sheets[0]["cuts"]
    if cuts:
        lines += ["Cut so that it fits the time:", ""] + [f"- {cut}" for cut in cuts] + [""]
    failed = [row for row in sheets[0]["rows"] if row.get("problem")]
    if failed:
        lines += ["Not measured by prepose:", ""]
        lines += [f"- {name(key(row))}, {row['model']}, {row['dtype']}, batch {row['batch']}: {row['problem']}" for row in failed]
        lines += [""]
    Path(f"{args.output}.md").write_text("\n".join(lines))
    ratios = [
        dict(zip(KEYS, row)) | {"prepose": ours, "diffusers": sides[1][0].get(row), "compiled": sides[2][0].get(row)}
        for row, ours in sides[0][0].items()
        if row in sides[1][0]
    ]
    result = {"command": args.command, "machine": machine, "library": library, "load_averages": loads, "medians": ratios}
    result |= {"sheets": sheets, "diffusers_sheets": others}
    result["compiled_sheets"] = [json.loads(file.read_text()) for file in args.compiled]
    Path(f"{args.output}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
