"""same-runs.py A B: whether two run folders hold the same but for when, where and how fast it was made."""

import json
import sys
from pathlib import Path

CHANGES = {"timestamp_utc", "code_version", "seconds"}


def contents(root):
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if not path.is_file() or name.parts[0] in ("provenance", "digests.jsonl") or name.parts[0].startswith("shard-"):
            continue
        data = path.read_bytes()
        if path.suffix == ".jsonl":
            lines = [json.loads(line) for line in data.splitlines()]
            data = [{k: v for k, v in line.items() if k not in CHANGES} for line in lines]
        elif path.suffix == ".json":
            data = {k: v for k, v in json.loads(data).items() if k not in CHANGES}
        found[str(name)] = data
    return found


def main():
    a, b = (contents(Path(folder)) for folder in sys.argv[1:3])
    if a.keys() != b.keys():
        sys.exit(f"only in one: {sorted(a.keys() ^ b.keys())}")
    for name, data in a.items():
        if data != b[name]:
            sys.exit(f"{name} differs")
    if not any(name.endswith("manifest.jsonl") for name in a):
        sys.exit("there is no finished run to compare")


main()
