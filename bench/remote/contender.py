"""Who takes part: one interface for all, a module for each library.

A contender that is not installed is not an error: `races.assemble` says why it is missing, and the
page repeats it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from harness import Loop, loop_of
from peers.data import Spec
from races import require, timed_loop

OURS = "bloscpack"
STORE = "bloscpack, frame store"
ZARR = "zarr"
SHARDED = "zarr, sharded"
HDF5 = "h5py"

# Module and class of each, in the order of the tables.
TABLE = {
    OURS: ("remote.with_bloscpack", "Ours"),
    STORE: ("remote.with_bloscpack", "OurStore"),
    ZARR: ("remote.with_zarr", "Plain"),
    SHARDED: ("remote.with_zarr", "Sharded"),
    HDF5: ("remote.with_h5py", "Hdf5File"),
}

# What is done with an array.
OPEN, ROW, ROWS, STRIDED, CLIP, ITERATE = "open", "row", "rows", "strided", "clip", "iterate"
WORK = (OPEN, ROW, ROWS, STRIDED, CLIP, ITERATE)

Task = dict[str, Any]
"""What is to be done; `race.Bench.task` says which members it has."""


class Contender(Protocol):
    """A library, and how it keeps an array behind a URL.

    Attributes
    ----------
    name : str
        As in the tables.
    note : str
        How it does the work, for the page.
    works : tuple of str
        Which of `WORK` it does.
    """

    name: str
    note: str
    works: tuple[str, ...]

    def version(self) -> str:
        """Return names and versions of the libraries."""
        ...

    def write(self, folder: Path, array: np.ndarray, spec: Spec, nclip: int) -> Path:
        """Write a new file or folder, and return its path."""
        ...

    def open(self, url: str, options: dict[str, Any]) -> AbstractContextManager[Any]:
        """Open; what is given has a shape and a dtype, and is indexed by rows."""
        ...

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        """Return rows in the order of the list."""
        ...

    def iterate(self, array: Any, nrows: int) -> Iterator[np.ndarray]:
        """Yield the first rows one by one, in the way that costs least."""
        ...


class Chunkwise:
    """Selections for libraries that keep nothing of what they have read: whole chunks."""

    def iterate(self, array: Any, nrows: int) -> Iterator[np.ndarray]:
        """Yield the first rows."""
        step = array.chunks[0]
        for start in range(0, nrows, step):
            yield from array[start : min(start + step, nrows)]


def prepare(contender: Contender, task: Task, stack: ExitStack) -> Loop:
    """Return the loop of a task, after comparing what it results in.

    The handle that is read from is opened anew each time, which is timed in the task `OPEN` only.
    """
    wanted = np.load(task["wanted"], mmap_mode="r")

    def opening() -> AbstractContextManager[Any]:
        return contender.open(task["url"], task["options"])

    with opening() as array:
        is_equal = tuple(array.shape) == wanted.shape and np.dtype(array.dtype) == wanted.dtype
        require(is_equal, contender.name, "shape or dtype")
        if task["work"] != OPEN:
            _check(contender, task, array, wanted)
    if task["work"] == OPEN:

        def call() -> object:
            with opening() as array:
                return array.shape, array.dtype

        return loop_of(call)

    held = stack.enter_context(ExitStack())
    handles: list[Any] = []

    def renew() -> None:
        held.close()
        handles[:] = [held.enter_context(opening())]

    read = _reading(contender, task)
    return timed_loop(lambda: read(handles[0]), renew)


def _reading(contender: Contender, task: Task) -> Callable[[Any], Any]:
    """Return what reads from a handle."""
    start, stop = task["clip"]
    return {
        ROW: lambda array: array[task["row"]],
        ROWS: lambda array: contender.pick(array, task["rows"]),
        STRIDED: lambda array: array[:: task["step"]],
        CLIP: lambda array: array[start:stop],
        ITERATE: lambda array: sum(1 for _ in contender.iterate(array, task["niterated"])),
    }[task["work"]]


def _check(contender: Contender, task: Task, array: Any, wanted: np.ndarray) -> None:
    """Fail the run unless a task results in what is stored."""
    work, who = task["work"], contender.name
    if work == ITERATE:
        count = 0
        for row in contender.iterate(array, task["niterated"]):
            require(np.array_equal(row, wanted[count]), who, f"row {count}")
            count += 1
        require(count == task["niterated"], who, "the number of rows")
        return
    start, stop = task["clip"]
    right: Any = {
        ROW: task["row"],
        ROWS: task["rows"],
        STRIDED: slice(None, None, task["step"]),
        CLIP: slice(start, stop),
    }[work]
    found = _reading(contender, task)(array)
    require(np.array_equal(found, wanted[right]), who, f"what it reads ({work})")
