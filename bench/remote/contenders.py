"""Contenders that read arrays behind URLs, and the work that each does in its own process.

`cases.Arrays.task` makes the tasks.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from race import races
from race.races import Task, exhaust, require, require_equal
from race.timing import Loop, loop_of, timed_loop

from remote.serving import HTTP, S3

OURS = "bloscpack"
STORE = "bloscpack, frame store"
ZARR = "zarr"
SHARDED = "zarr, sharded"
OBSTORE = "zarr, obstore"
ZARRS = "zarrs"
TENSORSTORE = "tensorstore"
ICECHUNK = "Icechunk"
HDF5 = "h5py"

TABLE = {
    OURS: "remote.formats:Ours",
    STORE: "remote.formats:OurStore",
    ZARR: "remote.formats:Plain",
    SHARDED: "remote.formats:Sharded",
    OBSTORE: "remote.formats:WithObstore",
    ZARRS: "remote.formats:WithZarrs",
    TENSORSTORE: "remote.formats:WithTensorStore",
    ICECHUNK: "remote.formats:InIcechunk",
    HDF5: "remote.formats:Hdf5File",
}

OPEN, ROW, ROWS, STRIDED, CLIP, ITERATE = "open", "row", "rows", "strided", "clip", "iterate"
TILE, SERIES, WHOLE = "tile", "series", "whole"
WORK = (OPEN, ROW, ROWS, STRIDED, CLIP, ITERATE, TILE, SERIES, WHOLE)
BY_ROWS, BY_GRID = "rows", "grid"  # how the array is cut into chunks


class Contender(races.Contender):
    """A library, and how it keeps an array behind a URL; by default it reads whole chunks.

    Attributes
    ----------
    suffix : str
        End of the name of its file or folder; contenders with the same one share it.
    servers : tuple of str
        Those that it can read from.
    """

    works: tuple[str, ...] = WORK
    suffix = ""
    servers: tuple[str, ...] = (S3, HTTP)

    def write(self, path: Path, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        """Write a new file or folder."""
        raise NotImplementedError

    def open(self, url: str, options: dict[str, Any]) -> AbstractContextManager[Any]:
        """Open an array: it has a shape and a dtype, and is indexed by rows."""
        raise NotImplementedError

    def pick(self, array: Any, rows: list[int]) -> np.ndarray:
        """Return rows in the order of the list."""
        return array[rows]

    def iterate(self, array: Any, nrows: int) -> Iterator[np.ndarray]:
        """Yield the first rows one by one; libraries without a cache read chunk after chunk."""
        step = array.chunks[0]
        for start in range(0, nrows, step):
            yield from array[start : min(start + step, nrows)]


def prepare(contender: Contender, task: Task, stack: ExitStack) -> Loop:
    """Return the loop of a task, after checking its result.

    Every call reads from a fresh handle; opening it is timed in the task `OPEN` only.
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


def _index(task: Task) -> Any:
    """Return the index of what is read from the array."""
    return {
        ROW: task["row"],
        ROWS: task["rows"],
        STRIDED: slice(None, None, task["step"]),
        CLIP: slice(*task["clip"]),
        ITERATE: slice(task["niterated"]),
        TILE: tuple(slice(*bounds) for bounds in task["tile"]),
        SERIES: (slice(None), *task["point"]),
        WHOLE: slice(None),
    }[task["work"]]


def _reading(contender: Contender, task: Task) -> Callable[[Any], Any]:
    if task["work"] == ROWS:
        return lambda array: contender.pick(array, task["rows"])
    if task["work"] == ITERATE:
        return lambda array: exhaust(contender.iterate(array, task["niterated"]))
    index = _index(task)
    return lambda array: array[index]


def _check(contender: Contender, task: Task, array: Any, wanted: np.ndarray) -> None:
    if task["work"] == ITERATE:
        found = list(contender.iterate(array, task["niterated"]))
    else:
        found = _reading(contender, task)(array)
    require_equal(found, wanted[_index(task)], contender.name, f"the result of {task['work']}")
