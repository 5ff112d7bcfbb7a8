"""`fixtures/audit/`: the audited pictures of SpatialBench-UC's prompt-only run, and what follows from them.

The records, the sample and the labels are the released ones (CC BY 4.0, Amine Rostane), of which one method's part is used. The
bundle is `spatialbench-uc` in the folder that `PREPOSE_BENCHMARK_DATA` names. The draw, the agreement, the curves
and the grid search are computed here in plain Python, with Python's own `random`.
"""

import csv
import json
import math
import os
import random
from pathlib import Path

from common import case_dir, write_json

DATA = Path(os.environ.get("PREPOSE_BENCHMARK_DATA", "benchmark-data")) / "spatialbench-uc"
RUNS = DATA / "runs/final_20260112_084335"
CONFIGURATIONS = {"calibrated": "eval", "uncalibrated": "eval_precal_20260116_113552"}
DECIDED = ("PASS", "FAIL")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def round_robin(n, sizes):
    """How many each gets if they take turns until `n` are given out or all are empty."""
    given = [0] * len(sizes)
    while n > 0 and given != sizes:
        for i, size in enumerate(sizes):
            if n > 0 and given[i] < size:
                given[i] += 1
                n -= 1
    return given


def draw(candidates, n, seed):
    """The released draw: places of the candidates (method, relation, verdict, confidence)."""
    random.seed(seed)
    groups = {}
    for place, (method, relation, verdict, _) in enumerate(candidates):
        groups.setdefault((method, relation, verdict), []).append(place)
    methods = sorted({key[0] for key in groups})
    sizes = [sum(len(places) for key, places in groups.items() if key[0] == method) for method in methods]
    shares = {}
    for method, budget in zip(methods, round_robin(n, sizes)):
        keys = [key for key in groups if key[0] == method]
        if budget:
            random.shuffle(keys)
        shares |= dict(zip(keys, round_robin(budget, [len(groups[key]) for key in keys])))
    drawn = []
    for key, places in groups.items():
        if not shares[key]:
            continue
        bins = {}
        for place in places:
            bins.setdefault(sum(candidates[place][3] >= edge for edge in (0.2, 0.4, 0.6, 0.8)), []).append(place)
        for members in bins.values():
            random.shuffle(members)
        picked = []
        while len(picked) < shares[key]:
            for number in sorted(bins):
                if bins[number] and len(picked) < shares[key]:
                    picked.append(bins[number].pop())
        drawn += picked
    return drawn


def box_area(box):
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def iou(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = width * height
    union = box_area(a) + box_area(b) - both
    return both / union if union > 0 else 0.0


def redecide(record, margin, t_det, published):
    """Verdict and confidence of a record's stored detections at another margin and detection threshold."""
    relation = record["relation"]
    names = [record["object_a"], record["object_b"]]
    sideways = relation in ("left_of", "right_of")
    axis = 0 if sideways else 1
    sign = -1 if relation in ("left_of", "above") else 1
    least = 0.005 * 512 * 512

    def found(detections, name):
        return [d for d in detections if d["label"].lower() == name.lower() and d["score"] >= t_det]

    def large(detections):
        return [d for d in detections if box_area(d["box_xyxy"]) >= least]

    def best(detections, name):
        return max(large(found(detections, name)), key=lambda d: d["score"], default=None)

    def delta(a, b):
        centre = lambda box: (box[axis] + box[axis + 2]) / 2
        return (centre(a["box_xyxy"]) - centre(b["box_xyxy"])) / 512

    def side(value):
        if abs(value) <= margin:
            return "UNDECIDABLE"
        return "PASS" if sign * value > margin else "FAIL"

    primary = record["detectors"]["primary"]["detections"]
    a, b = [best(primary, name) for name in names]
    if not a or not b:
        return "UNDECIDABLE", 0.0
    for name in names:
        detections = found(primary, name)
        scores = sorted((d["score"] for d in (detections if published else large(detections))), reverse=True)
        if len(scores) > 1 and scores[0] - scores[1] < 0.1:
            return "UNDECIDABLE", 0.0
    if sideways and iou(a["box_xyxy"], b["box_xyxy"]) > 0.5:
        return "UNDECIDABLE", 0.0
    distance = delta(a, b)
    verdict = side(distance)
    # What a record does not hold, because its own margin left the picture undecided, is taken as stable.
    stability = record["conf_components"]["stability"] if verdict in DECIDED else 1.0
    if stability < 0.5:
        verdict = "UNDECIDABLE"
    agreement = 0.5
    secondary = record["detectors"].get("secondary")
    if secondary:
        c, d = [best(secondary["detections"], name) for name in names]
        if c and d:
            other = delta(c, d)
            said = 0.5 * (side(other) == verdict) + 0.5 * (distance * other >= 0)
            overlaps = [iou(x["box_xyxy"], y["box_xyxy"]) for x, y in ((a, c), (b, d))]
            agreement = 0.5 * said + 0.25 * overlaps[0] + 0.25 * overlaps[1]
    parts = [
        (math.sqrt(a["score"] * b["score"]), 0.4),
        (min(1.0, max(0.0, (abs(distance) - margin) / 0.15)), 0.3),
        (stability, 0.2),
        (agreement, 0.1),
    ]
    return verdict, math.prod((part + 1e-10) ** weight for part, weight in parts)


def judgements(records, labels):
    return [(record["verdict_raw"], record["conf"], labels[record["sample_id"]]) for record in records]


def agreement(judged):
    count = lambda checker, human: sum(j[0] == checker and j[2] == human for j in judged)
    both = {checker: {human: count(checker, human) for human in DECIDED} for checker in DECIDED}
    decided = sum(sum(row.values()) for row in both.values())
    return {
        "confusion_matrix": both,
        "undecidable_checker": sum(j[0] not in DECIDED for j in judged),
        "undecidable_human": sum(j[2] not in DECIDED for j in judged),
        "total_samples": len(judged),
        "decided_samples": decided,
        "accuracy": (both["PASS"]["PASS"] + both["FAIL"]["FAIL"]) / decided,
    }


def point(judged, tau):
    covered = [j for j in judged if j[0] in DECIDED and j[1] >= tau]
    evaluated = [j for j in covered if j[2] in DECIDED]
    if not covered:
        accuracy = 1.0
    else:
        accuracy = sum(j[0] == j[2] for j in evaluated) / len(evaluated) if evaluated else 0.0
    return {
        "tau": tau,
        "coverage": len(covered) / len(judged),
        "risk": 1.0 - accuracy,
        "accuracy": accuracy,
        "n_covered": len(covered),
        "n_evaluated": len(evaluated),
    }


def curve(judged):
    return [point(judged, tau) for tau in sorted({0.0, 1.0, *(j[1] for j in judged if j[0] in DECIDED)})]


def grid(records, labels, published):
    """Every trial, and which is the first of the best."""
    trials = []
    for margin in (0.03, 0.05, 0.07, 0.10):
        for t_det in (0.2, 0.3, 0.4):
            judged = [(*redecide(record(margin), margin, t_det, published), labels[name]) for name, record in records]
            for tau in (0.3, 0.5, 0.7):
                passes = [j for j in judged if j[0] == "PASS" and j[1] >= tau]
                false = sum(j[2] == "FAIL" for j in passes) / len(passes) if passes else 1.0
                at = point(judged, tau)
                score = false * 10.0 + at["risk"] * 2.0 + (1.0 - at["coverage"]) * 0.5
                trials.append([margin, t_det, tau, false, at["risk"], at["coverage"], score])
    return {"trials": trials, "best": min(range(len(trials)), key=lambda i: trials[i][6])}


def make():
    directory = case_dir("audit")
    sample = list(csv.DictReader((RUNS / "audits/v1/sample.csv").open(newline="")))
    audited = {row["sample_id"] for row in sample}
    (directory / "sample.csv").write_bytes((RUNS / "audits/v1/sample.csv").read_bytes())
    (directory / "labels_filled.json").write_bytes((RUNS / "audits/v1/labels_filled.json").read_bytes())
    labels = {label["sample_id"]: label["human_verdict"] for label in json.loads((directory / "labels_filled.json").read_text())}

    records = {}
    for name, folder in CONFIGURATIONS.items():
        text = (RUNS / "sd15_promptonly" / folder / "per_sample.jsonl").read_text().splitlines(keepends=True)
        kept = [line for line in text if json.loads(line)["sample_id"] in audited]
        (directory / f"{name}.jsonl").write_text("".join(kept))
        records[name] = [json.loads(line) for line in kept]
        for record in records[name]:
            # The rule above is the released one: it decides every record again as it was decided.
            margin = record["geometry"]["margin"]
            for published in (True, False):
                again = redecide(record, margin, 0.2 if name == "calibrated" else 0.3, published)
                assert again == (record["verdict_raw"], record["conf"]), record["sample_id"]

    candidates = [
        (name, record["relation"], record["verdict_raw"], record["conf"]) for name in records for record in records[name]
    ]
    expected = {
        "draws": [{"n": n, "seed": seed, "drawn": draw(candidates, n, seed)} for n, seed in ((40, 42), (40, 7), (9, 2**33), (500, 0))],
        "agreement": {name: agreement(judgements(records[name], labels)) for name in records},
        "curves": {name: curve(judgements(records[name], labels)) for name in records},
        "grids": {
            name: grid([(r["sample_id"], lambda _, r=r: r) for r in records[name]], labels, published=True)
            for name in records
        },
    }
    # Of both records of a picture, that of the largest margin that is not beyond the tried one; else of the smallest.
    by_id = {name: {record["sample_id"]: record for record in records[name]} for name in records}

    def either(name):
        return lambda margin: by_id["calibrated" if margin >= 0.1 else "uncalibrated"][name]

    expected["grids"]["both"] = grid([(name, either(name)) for name in by_id["calibrated"]], labels, published=True)
    write_json(directory / "expected.json", expected)
