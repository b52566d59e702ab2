"""Optional libraries that are imported lazily, while the process forks."""

import multiprocessing
from pathlib import Path

import pytest

from ..conftest import SMALL_FORMATS
from .scenario import run


@pytest.mark.slow
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system does not fork"
)
def test_fork_amid_imports(tmp_path: Path) -> None:
    run("imports", "fork_amid_imports", SMALL_FORMATS / "h264.bzna", str(tmp_path))
