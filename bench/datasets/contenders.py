"""Contenders that store datasets, and the work that each does in its own process."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from race import races
from race.races import Task, remove, require, require_equal
from race.timing import Loop, cycling, loop_of, timed_loop

from datasets.data import NHOURS, VARIABLE, make_part

OURS = "bloscpack, xarray"
PLAIN = "bloscpack"
RAW = "h5netcdf"
NETCDF = "h5netcdf, zlib-4"
HDF5 = "h5py"
ZARR = "zarr, xarray"
PLAIN_ZARR = "zarr"

TABLE = {
    OURS: "datasets.formats:Ours",
    PLAIN: "datasets.formats:OurArray",
    RAW: ("datasets.formats:Netcdf", {"filters": {}, "works": ("append",)}),
    NETCDF: "datasets.formats:Netcdf",
    HDF5: "datasets.formats:Hdf5",
    ZARR: "datasets.formats:Zarr",
    PLAIN_ZARR: "datasets.formats:ZarrArray",
}

APPEND, READ, SCAN = "append", "read", "scan"


class Contender(races.Contender):
    """A library, and how it stores a dataset.

    Attributes
    ----------
    suffix : str
        End of the name of its file or folder; contenders with the same one share it.
    """

    suffix = ""

    def create(self, path: Path, dataset: xr.Dataset) -> None:
        """Write a new file or folder, whose first axis can grow, in chunks of its length."""
        raise NotImplementedError

    def append(self, path: Path, part: xr.Dataset) -> None:
        """Open it, append along "time", make that durable, and close it."""
        raise NotImplementedError

    def copy(self, source: Path, path: Path, chunk: tuple[int, ...]) -> None:
        """Copy a netCDF file that is in such chunks."""
        raise NotImplementedError

    def open(self, place: str, options: dict[str, Any]) -> AbstractContextManager[Any]:
        """Open the variable of a path or URL: what it returns is indexed, and gives an array."""
        raise NotImplementedError

    def scan(self, array: Any, limit: float, step: int) -> int:
        """Return how many items are above a limit, for which chunks may be left out.

        `step` is the length of chunks along the first axis.
        """
        return sum(
            int((np.asarray(array[start : start + step]) > limit).sum())
            for start in range(0, array.shape[0], step)
        )


def prepare(contender: Contender, task: Task, stack: ExitStack) -> Loop:
    """Return the loop of a task, after checking its result."""
    if task["work"] == APPEND:
        return _appending(contender, **task)
    return _reading(contender, stack, **task)


def _appending(
    contender: Contender, work: str, path: str, shape: list[int], nvariables: int, nappends: int
) -> Loop:
    """Return the loop that appends parts to a new file."""
    target, size = Path(path), (shape[0], shape[1])
    first, *parts = (
        make_part(NHOURS * number, NHOURS, size, nvariables) for number in range(nappends + 1)
    )

    def renew() -> None:
        remove(target)
        contender.create(target, first)

    def append() -> None:
        for part in parts:
            contender.append(target, part)

    renew()
    append()
    engine = {".blp": "bloscpack", ".nc": "h5netcdf", ".zarr": "zarr"}[contender.suffix]
    with xr.open_dataset(target, engine=engine) as found:
        wanted = xr.concat([first, *parts], "time", data_vars="minimal")
        require(found.equals(wanted), contender.name, "the dataset")
    return timed_loop(append, renew, lambda: remove(target))


def _reading(
    contender: Contender,
    stack: ExitStack,
    work: str,
    place: str,
    options: dict[str, Any],
    wanted: str,
    indices: list[list[int | None]],
    is_open: bool,
    limit: float,
    step: int,
) -> Loop:
    """Return the loop that reads the next of some parts, or scans; by an open handle or not."""
    stored = np.load(wanted, mmap_mode="r")
    parts = [tuple(slice(None) if each is None else each for each in index) for index in indices]

    def opening(read: Callable[[Any], Any]) -> Any:
        with contender.open(place, options) as array:
            return read(array)

    def get(index: Any) -> np.ndarray:
        return opening(lambda array: np.asarray(array[index]))

    def scan(_: object = None) -> int:
        return opening(lambda array: contender.scan(array, limit, step))

    if work == SCAN:
        require(scan() == int((stored > limit).sum()), contender.name, "the number of items")
        return loop_of(scan)
    for index in parts if is_open or not options else parts[:1]:
        require_equal(get(index), stored[index], contender.name, f"{VARIABLE}[{index}]")
    if not is_open:
        return loop_of(cycling(get, parts, 1))
    array = stack.enter_context(contender.open(place, options))
    return loop_of(cycling(lambda index: np.asarray(array[index]), parts, 1))
