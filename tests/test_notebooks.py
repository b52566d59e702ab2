"""The notebooks of docs/notebooks run from the first cell to the last."""

import json
import os
import re
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
nbformat.write(book, sys.argv[2])
"""
# Objects of look.ipynb, by the start of their text, and how many tables and pictures each shows.
SHOWN = {
    "<bloscpack.Array ": (1, 1),
    "<bloscpack.ManyArrays ": (1, 1),
    "<bloscpack.Archive ": (2, 0),
    "<bloscpack.frames.FrameStore ": (2, 1),
    "<clip ": (1, 1),
    "<bloscpack.gulp.directory.GulpDirectory ": (2, 0),
    "<bloscpack.benzina.Dataset ": (2, 1),
    "<sample ": (1, 1),
    "<bloscpack.vrs.Recording ": (2, 0),
    "<stream ": (1, 1),
    "<bloscpack.Report ": (2, 0),
}


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    if path.stem in ("image-datasets", "look"):
        pytest.importorskip("av")
        pytest.importorskip("simplejpeg")
    # Files of the notebook, and the settings of Jupyter, go to a folder of the test.
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(tmp_path),
    }
    executed = tmp_path / "executed.ipynb"
    command = [sys.executable, "-c", RUN, str(path), str(executed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    if path.stem == "look":
        check_displays(executed)


def check_displays(path: Path) -> None:
    """Check that each kind of object shows its table and picture, and no error among them."""
    outputs = [output["data"] for cell in cells(path) for output in cell.get("outputs", [])]
    found = {}
    for data in outputs:
        if "text/html" in data:
            html = "".join(data["text/html"])
            [start] = [each for each in SHOWN if "".join(data["text/plain"]).startswith(each)]
            # Only the report has an error to show, in red.
            assert ("color:#c00" in html) == (start == "<bloscpack.Report ")
            found[start] = html.count("<table"), html.count('<img src="data:image/png;base64,')
    assert found == SHOWN
    assert [data for data in outputs if "image/png" in data], "the contact sheet"


def test_each_object_shows_itself() -> None:
    check_displays(REPOSITORY / "docs" / "notebooks" / "look.ipynb")


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
    linked = re.findall(r"^\| \[[^]]*\]\((.*?\.ipynb)\)", page, re.MULTILINE)
    assert sorted(linked) == [path.name for path in NOTEBOOKS]
    assert NOTEBOOKS
