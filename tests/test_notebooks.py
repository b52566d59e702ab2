"""The notebooks of docs/notebooks run from the first cell to the last."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import PACKAGE

REPOSITORY = PACKAGE.parent
NOTEBOOKS = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))
# Another process: Jupyter starts an event loop and warns in ways that are errors in tests.
RUN = """
import sys
import nbformat
from nbclient import NotebookClient
book = nbformat.read(sys.argv[1], 4)
nbformat.validate(book)
NotebookClient(book, timeout=300).execute()
"""


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    if path.stem == "image-datasets":
        pytest.importorskip("av")
    # Files of the notebook, and the settings of Jupyter, go to a folder of the test.
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(tmp_path),
    }
    command = [sys.executable, "-c", RUN, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_output_is_stored(path: Path) -> None:
    """Readers see results without running anything, and no error among them."""
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs
    assert all(cell["execution_count"] for cell in code)
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result"}
    assert not [output for output in outputs if output.get("name") == "stderr"]


def test_each_is_on_the_page() -> None:
    page = (REPOSITORY / "docs" / "notebooks" / "index.md").read_text("utf-8")
    for path in NOTEBOOKS:
        assert f"({path.name})" in page
    assert len(NOTEBOOKS) == 6
