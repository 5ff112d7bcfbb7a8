"""Every block of Python in the page, one after the other, in one folder."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"


def test_the_page(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    names = {}
    for number, block in enumerate(blocks, 1):
        # What needs PyTorch, or a server, says so in its first line and is tested elsewhere.
        if block.startswith(("# needs", "import torch")):
            compile(block, f"block {number}", "exec")
            continue
        exec(compile(block, f"block {number} of docs/python.md", "exec"), names)
