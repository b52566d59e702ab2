"""Contenders that keep an array in a file; all of them work in one process, on one thread."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from race import races
from race.timing import OURS, Loop, timed_loop

from arrays.data import Sample

AUTO = "bloscpack, auto"
BLOSC2, ZARR, PCODEC, JPEGXL = "blosc2", "zarr", "pcodec 8", "JPEG XL e3"
CUBE = "cube"  # the work of those that have chunks along every axis

_FORMATS = "arrays.formats"


def _blosc(codec: str, chunks: str) -> dict[str, Any]:
    note = f"{codec} with byte shuffle and zstd-5{chunks}"
    return {"has_blosc": True, "works": (CUBE,), "note": note}


TABLE = {
    OURS: f"{_FORMATS}:Ours",
    AUTO: (
        f"{_FORMATS}:Ours",
        {
            "codec": "auto",
            "note": '`bp.save(..., codec="auto")`, otherwise the same: array chunks',
        },
    ),
    "bloscpack, auto, dataset": f"{_FORMATS}:OurDataset",
    "bloscpack, auto, xarray": f"{_FORMATS}:OurXarray",
    BLOSC2: f"{_FORMATS}:Blosc2",
    "blosc2, searched": f"{_FORMATS}:Blosc2Searched",
    ZARR: f"{_FORMATS}:Zarr",
    "zarr, Blosc": (f"{_FORMATS}:Zarr", _blosc("its Blosc codec", "")),
    "h5py, gzip": f"{_FORMATS}:Hdf5",
    "h5py, Blosc": (
        f"{_FORMATS}:Hdf5",
        _blosc("the Blosc filter of hdf5plugin", "; chunks of its choice"),
    ),
    PCODEC: f"{_FORMATS}:PCodec",
    "pcodec 12": (f"{_FORMATS}:PCodec", {"level": 12, "note": "pcodec at its highest level"}),
    "OpenZL, searched": f"{_FORMATS}:OpenZL",
    "Vortex, compact": f"{_FORMATS}:Vortex",
    "FLAC": f"{_FORMATS}:Flac",
    "fpzip": f"{_FORMATS}:FpZip",
    JPEGXL: f"{_FORMATS}:JpegXL",
}


class Contender(races.Contender):
    """A library with its options.

    Attributes
    ----------
    itemsizes : tuple of int
        Sizes of items that it takes.
    """

    itemsizes: tuple[int, ...] = (1, 2, 4, 8)

    def suited(self, sample: Sample) -> np.ndarray | None:
        """Return the array as the library takes it; None if it does not."""
        return sample.plain if sample.array.itemsize in self.itemsizes else None

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        """Write an array to a new path, in chunks of that shape or by default of its choice."""
        raise NotImplementedError

    def open(self, path: Path) -> Any:
        """Open for reading: a context, whose handle is indexed and returns arrays."""
        raise NotImplementedError

    def read(self, handle: Any, like: np.ndarray) -> np.ndarray:
        """Read all into a new array with the shape and dtype of `like`."""
        return handle[...]

    def cbytes(self, path: Path) -> int:
        """Return the bytes of compressed data, without the headers of the file."""
        return races.size_of(path)

    def reading(self, path: Path, like: np.ndarray) -> Loop:
        """Return the loop that reads all, each time by a new handle; opening it is not timed."""
        held, handles = ExitStack(), []

        def renew() -> None:
            held.close()
            handles[:] = [held.enter_context(self.open(path))]

        def read() -> None:
            self.read(handles[0], like)

        return timed_loop(read, renew, held.close, clock=process_time)


class Codec(Contender):
    """A codec without a file format: the file has its bytes only."""

    def encode(self, array: np.ndarray) -> bytes:
        raise NotImplementedError

    def write(self, path: Path, array: np.ndarray, chunks: Any = None) -> None:
        path.write_bytes(self.encode(array))

    @contextmanager
    def open(self, path: Path) -> Iterator[bytes]:
        yield path.read_bytes()
