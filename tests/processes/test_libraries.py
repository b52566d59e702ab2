"""Optional libraries that are imported lazily, while the process forks."""

import multiprocessing
from pathlib import Path

import pytest

from ..benzina import vectors
from .scenario import run


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system does not fork"
)
def test_fork_amid_imports(tmp_path: Path) -> None:
    vectors.manifest()
    run("imports", "fork_amid_imports", vectors.FOLDER / "solo1.bzna", str(tmp_path))
