"""Puts the toybox's IP-Adapter in its place: python scripts/toybox/ip_adapter.py TRAINING...

Copies the adapter of the last of some trainings, each of which went on from the one before, to weights/toybox/ip-adapter and writes the
record of each onto the card there.
"""

import sys
from pathlib import Path

import trained


def main():
    trainings = [Path(path) for path in sys.argv[1:]]
    if not trainings:
        raise SystemExit(__doc__)
    commands, begun = [], "--image-encoder toybox-clip"
    for training in trainings:
        commands.append(f"ip-adapter shown {begun}")
        begun = f"--ip-adapter runs/{training.name}/ip_adapter.safetensors,encoder=toybox-clip"
    trained.take("ip-adapter", "ip_adapter.safetensors", trainings, commands)


if __name__ == "__main__":
    main()
