"""Puts the toybox's IP-Adapter in its place: python scripts/toybox/ip_adapter.py TRAINING DATA

Copies the adapter of a training on the folder DATA to weights/toybox/ip-adapter and adds its record to the card there.
"""

import sys
from pathlib import Path

import trained

if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    begin = f"ip-adapter {sys.argv[2]} --image-encoder toybox-clip"
    further = f"ip-adapter {sys.argv[2]} --ip-adapter {{}},encoder=toybox-clip"
    trained.take("ip-adapter", "ip_adapter.safetensors", Path(sys.argv[1]), begin, further)
