"""The notebooks run from their beginning to their end, and are kept without output."""

from pathlib import Path

import pytest

nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook(path, tmp_path):
    book = nbformat.read(path, as_version=4)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert cells and all(not cell.outputs and cell.execution_count is None for cell in cells)
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    # Each cell that ends in an expression shows something.
    assert all(cell.outputs for cell in cells if cell.source.splitlines()[-1][0] not in " #" and "=" not in cell.source.splitlines()[-1])


def test_there_are_some():
    assert len(list(FOLDER.glob("*.ipynb"))) == 2
