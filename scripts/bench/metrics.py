"""Recomputes metrics.json from per_sample.jsonl, independently: python scripts/bench/metrics.py RUN/METHOD/eval..."""

import json
import sys
from collections import Counter
from pathlib import Path


def counts(records):
    verdicts = Counter(record["verdict_raw"] for record in records)
    passed, failed, total = verdicts["PASS"], verdicts["FAIL"], len(records)
    decided = passed + failed
    return dict(pass_count=passed, fail_count=failed, undecidable_count=verdicts["UNDECIDABLE"],
                coverage=decided / total if total else 0.0,
                pass_rate_overall=passed / total if total else 0.0,
                pass_rate_conditional=passed / decided if decided else 0.0)


for folder in map(Path, sys.argv[1:]):
    records = [json.loads(line) for line in (folder / "per_sample.jsonl").read_text().splitlines()]
    undecided = [record for record in records if record["verdict_raw"] == "UNDECIDABLE"]
    relations = sorted({record["relation"] for record in records})
    mine = dict(total_samples=len(records), **counts(records),
                undecidable_rate=len(undecided) / len(records) if records else 0.0,
                mean_confidence=sum(record["conf"] for record in records) / len(records) if records else 0.0,
                by_relation={name: dict(count=len(some), **counts(some)) for name in relations
                             if (some := [record for record in records if record["relation"] == name])},
                undecidable_reasons=dict(Counter(record["verdict_reason"].split(":")[0].split()[0].split("(")[0]
                                                 for record in undecided)))
    written = json.loads((folder / "metrics.json").read_text())
    wrong = {key: (value, written.get(key)) for key, value in mine.items() if value != written.get(key)}
    print(f"{folder}: {len(records)} records, {len(mine)} metrics identical" if not wrong else f"{folder}: {wrong}")
    if wrong:
        sys.exit(1)
