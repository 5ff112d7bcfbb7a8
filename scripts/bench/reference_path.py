"""Makes the modules of scripts/reference importable, and keeps the libraries offline and quiet."""

import os
import sys
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
sys.path.insert(0, str(REFERENCE))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
