"""Scenario: a process is forked while another of its threads imports a module on use."""

import io
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
from forks import in_child, wait_for
from scenario import TIMEOUT_SECONDS

import bloscpack as bp
from bloscpack.parallel import imports
from bloscpack.storage.sink import SpoolSink
from bloscpack.vrs.block import imagecodec

# Fakes of optional libraries: loading them takes until the process forks or, where the fork waits
# for imports, this many seconds.
SECONDS = 0.2
STANDS_FOR = "import imports\nimports.load_slowly()\n"
PARENT = os.getpid()
ARRAY_CHUNKS = Path(__file__).parents[1] / "conformance" / "array_auto_i2.blp"
INCOMPRESSIBLE = np.random.default_rng(1).integers(
    256, size=SpoolSink._MEMORY_NBYTES + 1, dtype=np.uint8
)
loading, forked = Event(), Event()


def load_slowly() -> None:
    """Called by the fake libraries while they are imported."""
    if os.getpid() == PARENT:
        loading.set()
        forked.wait(SECONDS)


class SlowFinder:
    """Finder in front of all others, which delays some modules of ours."""

    NAMES = ("bloscpack.format.arraychunk", "bloscpack.array.chunkcodec.chunkencoder")

    def find_spec(self, name: str, *_: object) -> None:
        if name in self.NAMES:
            load_slowly()


def make_libraries(folder: Path) -> None:
    for name in ("av", "PIL", "pillow_jxl", "simplejpeg", "torch"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(STANDS_FOR)
    (folder / "PIL" / "Image.py").write_text(f"{STANDS_FOR}def preinit(): imports.load_slowly()\n")
    with (folder / "torch" / "__init__.py").open("a") as file:
        file.write("raise ImportError\n")  # so that it can be imported more than once
    sys.path.insert(0, str(folder))
    os.getcwd = working_folder
    sys.meta_path.insert(0, SlowFinder())


def spool_slowly() -> None:
    """Find the folder of temporary files again, slowly, for a buffer that grows to a file."""
    tempfile.tempdir = None
    bp.save(io.BytesIO(), INCOMPRESSIBLE)


def working_folder(getcwd: Callable[[], str] = os.getcwd) -> str:
    """In place of `os.getcwd`, which `tempfile` calls while it holds its lock."""
    load_slowly()
    return getcwd()


def ways(path: Path) -> dict[str, Callable[[], Any]]:
    """Return functions that import each library; most fail later, as the fakes are empty."""
    return {
        "av": imports.import_av,
        "PIL": imports.import_pillow,
        "simplejpeg": imports.import_simplejpeg,
        "pillow_jxl": lambda: imagecodec._decode_jxl(b""),
        "torch": lambda: bp.benzina.DataLoader,
        "torch on use": lambda: bp.benzina.Loader(path, (8, 8), as_tensors=True),
        "array chunks": lambda: bp.load(ARRAY_CHUNKS),
        "temporary files": spool_slowly,
        "encoder of array chunks": lambda: bp.save(io.BytesIO(), np.arange(9), codec="auto"),
    }


def fork_amid_imports(path: Path, folder: str) -> None:
    make_libraries(Path(folder))
    for name, use in ways(path).items():

        def attempt(use: Callable[[], Any] = use) -> None:
            with suppress(Exception):
                use()

        loading.clear(), forked.clear()
        thread = Thread(target=attempt)
        thread.start()
        if not loading.wait(TIMEOUT_SECONDS / 2):
            raise ValueError(f"{name} was not imported")
        child = in_child(attempt)
        forked.set()
        thread.join()
        wait_for([child])
