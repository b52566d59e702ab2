"""Counts the system calls and requests of the reads that matter, on local files and by HTTP."""

import builtins
import io
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

import bloscpack as bp

from .. import clientlist
from ..servers import FileServer, running
from .commands import run

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "formats"
NOISE = np.random.default_rng(0).integers(0, 256, (256, 4096), "u1")

# By what a user does: a file, and a function of its path or URL.
READS: dict[str, tuple[str, Callable[[str], object]]] = {}


def reading(name: str, file: str) -> Callable[[Callable[[Any], object]], None]:
    """Return a function that adds a case: what is done with the open file."""

    def add(read: Callable[[Any], object]) -> None:
        def opened(place: str) -> None:
            module = {"vrs": bp.vrs, "bzna": bp.benzina}.get(file.rpartition(".")[2], bp)
            if file == "store.blp":
                module = bp.frames
            with module.open(place) as source:
                read(source)

        READS[name] = (file, opened)

    return add


reading("open an array", "array.blp")(lambda array: None)
reading("read a row", "array.blp")(lambda array: array[3])
reading("read rows of two chunks", "array.blp")(lambda array: array[6:10])
reading("read with a step", "array.blp")(lambda array: array[::64])
reading("read a whole array", "array.blp")(lambda array: array.read_whole())
reading("read a small array", "small.blp")(lambda array: array[:])
reading("open a frame store", "store.blp")(lambda store: None)
reading("read a clip", "store.blp")(lambda store: store["clip 7"].read())
reading("read a frame", "store.blp")(lambda store: store["clip 7"][1])
reading("read the metadata of a clip", "store.blp")(lambda store: store["clip 7"].meta)
reading("open a recording", "recording.vrs")(lambda recording: None)
reading("read a record", "recording.vrs")(lambda recording: recording[3].audio_blocks)
reading("open a dataset", "pictures.bzna")(lambda dataset: None)
reading("read a sample", "pictures.bzna")(lambda dataset: dataset[1].data)
READS["load an array"] = ("array.blp", bp.load)
READS["verify an array"] = ("array.blp", bp.verify)
READS["verify a frame store"] = ("store.blp", bp.verify)
READS["blpk info"] = ("array.blp", lambda place: run(["info", place]))
READS["blpk ls"] = ("array.blp", lambda place: run(["ls", place]))
READS["blpk verify"] = ("array.blp", lambda place: run(["verify", place]))


@contextmanager
def folder_of_files() -> Iterator[Path]:
    """Make a folder with the files."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        bp.save(folder / "array.blp", NOISE, chunks=8, nthreads=1)
        bp.save(folder / "small.blp", NOISE[0, :100], nthreads=1)
        with bp.frames.create(folder / "store.blp", nthreads=1) as store:
            for number in range(20):
                store.append(f"clip {number}", NOISE[number : number + 3, :600].reshape(3, 24, 25))
        shutil.copyfile(VECTORS / "recording.vrs", folder / "recording.vrs")
        shutil.copyfile(VECTORS / "h264.bzna", folder / "pictures.bzna")
        yield folder


def local() -> dict[str, dict[str, int]]:
    """Return the files opened, the reads and the bytes of each case."""
    counts: dict[str, dict[str, int]] = {}
    with folder_of_files() as folder, patch.dict(os.environ, {"BLOSCPACK_NTHREADS": "1"}):
        for name, (file, read) in READS.items():
            read(str(folder / file))  # what is imported and decoded only once
            # An open file may be kept for the next one who reads it.
            place = shutil.copyfile(folder / file, folder / f"{len(counts)}.{file}")
            with counting() as calls:
                read(str(place))
            counts[name] = dict(calls)
    return counts


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count opens, reads by position and their bytes."""
    calls: Counter[str] = Counter(opens=0, reads=0, bytes=0)

    class CountedFile(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            calls["reads"] += 1
            nbytes = super().readinto(buffer)
            calls["bytes"] += nbytes or 0
            return nbytes

    def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        calls["opens"] += 1
        if mode == "rb" and isinstance(file, str | os.PathLike):
            return io.BufferedReader(CountedFile(file))
        return open_file(file, mode, *args, **options)

    open_file = builtins.open

    def counted(inner: Any, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            found = inner(*args, **options)
            if name == "reads":
                calls["bytes"] += found if isinstance(found, int) else len(found)
            return found

        return call

    names: list[tuple[Any, str, str]] = [(os, "open", "opens")]
    names += [(os, each, "reads") for each in ("pread", "preadv", "read") if hasattr(os, each)]
    with ExitStack() as patches:
        for each in (io, builtins):
            patches.enter_context(patch.object(each, "open", opened))
        for module, function, name in names:
            inner = getattr(module, function)
            patches.enter_context(patch.object(module, function, counted(inner, name)))
        yield calls


def remote() -> dict[str, dict[str, int]]:
    """Return the requests and bytes of each case, from a server on loopback."""
    counts: dict[str, dict[str, int]] = {}
    with running(FileServer()) as server:
        with folder_of_files() as folder, patch.dict(os.environ, {"BLOSCPACK_NTHREADS": "1"}):
            server.files = {f"/{each.name}": each.read_bytes() for each in folder.iterdir()}
        for name, (file, read) in READS.items():
            server.clear()
            read(server.url(file))
            counts[name] = {"requests": len(server.log), "bytes": server.nbytes}
        clientlist.close_all()
    return counts


def has_http() -> bool:
    """Return whether URLs can be read."""
    return all(find_spec(each) is not None for each in ("aiohttp", "fsspec"))
