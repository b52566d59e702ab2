"""Description of an array in the metadata of its file: dtype, shape and order.

An array is stored as its own memory: row by row along the first axis in C order, along the last
axis in Fortran order (which equals a C-order array of the reversed shape). The metadata are those
of bloscpack 0.16 (``dtype``, ``shape``, ``order``, ``container``), plus ``attrs`` and
``logical_dtype`` where needed. An array in a chunk grid is stored chunk by chunk, each as an array
of this order, and ``chunks`` is the shape of a chunk.
"""

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Never, TypeAlias

import numpy as np

from ..container.reader import Container
from ..exceptions import FormatError, NotANumpyArray
from ..format.header import FEATURE_ARRAY_CHUNKS, Header
from ..format.metadata import MAX_NDIM, decode_data, describes_array
from ..parallel.imports import importing
from ..types import AnyArray
from .dtype import Dtype, pack_dtype, unpack_dtype

if TYPE_CHECKING:
    from ..container.appender import Appender
    from ..format.chunkgrid import ChunkGrid
    from ..format.statistics import Statistics

Description: TypeAlias = tuple[Dtype, tuple[int, ...], bool]

# Parsed metadata of at most this size are cached; structured dtypes may need more.
_MAX_REMEMBERED_NBYTES = 1024


class Described:
    """Array in files, whose description is that of the files."""

    __slots__ = ()
    _described: Description
    read_whole: Callable[[], AnyArray]

    @property
    def dtype(self) -> Dtype:
        """Type of the items."""
        return self._described[0]

    @dtype.setter
    def dtype(self, _: object) -> Never:
        raise AttributeError("the file would not change: use a[...].view(dtype) or .astype(dtype)")

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return self._described[1]

    @shape.setter
    def shape(self, _: object) -> Never:
        raise AttributeError("the file would not change: use a[...].reshape(shape)")

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of items."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Decoded size in bytes."""
        return self.size * self.dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return the whole array as a new ndarray.

        Raises
        ------
        ValueError
            `copy` is False.
        """
        if copy is False:
            raise ValueError("cannot return an array in a file without copying it (copy=False)")
        whole = self.read_whole()
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def viewer(self) -> Any:
        """Return a widget for notebooks that shows slices of the array.

        Choose the axes that are rows and columns, an index for each other axis, a part, colours
        and their range. Only what is shown is read.

        Returns
        -------
        anywidget.AnyWidget
            JupyterLab, VS Code and other notebooks show it, as long as the array is open.

        Raises
        ------
        ImportError
            anywidget is missing, which ``bloscpack[notebook]`` installs.

        Notes
        -----
        At most 1024 entries of an axis are shown, evenly spaced, and 256 MiB of chunks are decoded
        for a picture; a part that costs more is cut. Errors are shown in the widget.
        """
        with importing:
            from ..display.widget import viewer
        return viewer(self)


class StoredArray(Described):
    """Array in one file: what the file says of it, and what cannot be done with it."""

    __slots__ = ("_container", "_is_open", "_is_seen", "_rows")
    _container: Container
    _is_open: bool
    # Whether `_container` has all rows that were appended by this handle.
    _is_seen: bool
    _rows: Any  # the RowAppender in mode "a", else None

    @property
    def container(self) -> Container:
        """Container of the file, with all rows that were appended.

        Raises
        ------
        ValueError
            The array is closed.
        """
        if not self._is_open:
            raise ValueError("I/O operation on a closed bloscpack.Array: open the file again")
        if self._rows is not None and not self._is_seen:
            self._container = self._rows.view(verify=self._container.verify)
            self._is_seen = True
        return self._container

    def _known_container(self) -> Container:
        return self.container if self._is_open else self._container

    @property
    def name(self) -> str | None:
        """Path or URL, as passed by the caller; None for bytes."""
        return self._container.name

    @property
    def is_fortran(self) -> bool:
        """Whether the array is stored in Fortran order."""
        return self._described[2]

    @property
    def cbytes(self) -> int:
        """Size of the file in bytes; of an array of a changed archive, that of its chunks."""
        return self.container.cbytes

    @property
    def cratio(self) -> float:
        """Compression ratio: decoded size divided by file size."""
        return self.nbytes / self.cbytes

    @property
    def header(self) -> Header:
        """Header of the file."""
        return self._known_container().header

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return self._known_container().nchunks

    @property
    def codec(self) -> str | None:
        """Codec of the first chunk, as `save` takes it; None without chunks.

        "auto" if the file may have array chunks. Chunks of "lz4hc" are of the format of "lz4".
        """
        container = self.container
        if container.header.features & FEATURE_ARRAY_CHUNKS:
            return "auto"
        return container.fetch(0).header.codec if container.nchunks else None

    @property
    def clevel(self) -> int | None:
        """Level of compression: None, as files do not record it."""
        return None

    @property
    def checksum(self) -> str | None:
        """Name of the checksum behind each chunk; None if there is none."""
        checksum = self.header.checksum
        return checksum.name if checksum.nbytes else None

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of a chunk; None if chunks do not consist of whole rows (along any axis).

        Chunks at the edges of the array may be smaller.
        """
        return chunk_shape(self._known_container(), self._described)

    def _chunk_grid(self) -> "ChunkGrid":
        """Return the parts of the array that chunks hold; raises as `chunk_region` does."""
        container, chunks = self.container, self.chunks
        if container.grid is not None:
            return container.grid
        if chunks is None:
            raise ValueError(
                f"chunks of {container.chunk_size} bytes are not parts of an array of shape "
                f"{self.shape} and {self.dtype} along its axes"
            )
        with importing:  # on use, as for a file with a grid
            from ..format.chunkgrid import ChunkGrid

        order = slice(None, None, -1 if self.is_fortran else 1)
        steps = tuple(max(step, 1) for step in chunks[order])
        return ChunkGrid(self.shape[order], steps, self.dtype.itemsize, self.is_fortran)

    if not TYPE_CHECKING:  # type checkers know that there are no others

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, which says where the methods of numpy are."""
            is_numpys = not name.startswith("_") and hasattr(np.ndarray, name)
            advice = ": a[...] is a numpy array, which has it" if is_numpys else ""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{advice}"
            )

    def __delitem__(self, index: Any) -> Never:
        raise TypeError("items cannot be deleted from an array in a file: save the others instead")

    def __contains__(self, value: Any) -> Never:
        raise TypeError("use 'value in a[...]', which reads the whole array")

    def __eq__(self, other: object) -> Never:
        raise TypeError("use 'a[...] == other', which reads the whole array; 'a is b' for identity")

    __hash__ = object.__hash__

    def __bool__(self) -> Never:
        raise TypeError("an array has no truth value: use a.size, or a[...].any()")


def array_metadata(
    dtype: Dtype,
    shape: tuple[int, ...],
    is_fortran: bool,
    chunks: tuple[int, ...] | None = None,
) -> dict[str, Any]:
    """Return the metadata that describe an array, in the key order of bloscpack 0.16.

    `chunks` is the shape of a chunk of a grid, in the order of the axes of `shape`.
    """
    text, logical = pack_dtype(dtype)
    metadata = {
        "dtype": text,
        "shape": list(shape),
        "order": "F" if is_fortran else "C",
        "container": "numpy",
    }
    if logical is not None:
        metadata["logical_dtype"] = logical
    if chunks is not None:
        metadata["chunks"] = list(chunks)
    return metadata


def unpack_array_metadata(metadata: Any) -> Description:
    """Return (dtype, shape, is_fortran) from the metadata of an array.

    NotANumpyArray if they do not describe one.
    """
    if not describes_array(metadata):
        raise NotANumpyArray(
            "the file does not hold a numpy array (its metadata lack container: numpy); "
            "unpack it as bytes"
        )
    dtype = unpack_dtype(metadata.get("dtype"), metadata.get("logical_dtype"))
    shape = metadata.get("shape")
    if not isinstance(shape, list) or len(shape) > MAX_NDIM or not all(map(_is_length, shape)):
        raise FormatError("metadata: shape is not a list of lengths", field="shape")
    order = metadata.get("order", "C")
    if order not in ("C", "F"):
        raise FormatError(f"metadata: order {str(order)[:80]!r} is not 'C' or 'F'", field="order")
    return dtype, tuple(shape), order == "F"


def _is_length(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


@lru_cache(maxsize=256)
def _describe_stored(data: bytes, codec: str, nbytes: int) -> Description:
    return unpack_array_metadata(decode_data(data, codec, nbytes))


def describe_array(container: Container) -> Description:
    """Return (dtype, shape, is_fortran) of the array in `container`.

    Raises the errors of `unpack_array_metadata`.
    """
    header, data = container.front.metadata_header, container.front.stored_metadata
    if header is None or len(data) > _MAX_REMEMBERED_NBYTES:
        return unpack_array_metadata(container.metadata)
    # Equal dtypes and shapes give identical metadata: a set of small files is parsed only once.
    return _describe_stored(data, header.meta_codec, header.meta_size)


def describe_content(container: Container) -> Description:
    """Return (dtype, shape, is_fortran); a file without array metadata is an array of its bytes."""
    try:
        description = describe_array(container)
    except NotANumpyArray:
        description = np.dtype(np.uint8), (container.nbytes,), False
    check_nbytes(container, description[0], description[1])
    return description


def chunk_shape(container: Container, description: Description) -> tuple[int, ...] | None:
    """Return the shape of a chunk; None if chunks do not consist of whole rows (along any axis)."""
    dtype, shape, is_fortran = description
    if container.grid is not None:
        return container.grid.chunks[:: -1 if is_fortran else 1]
    if not shape or not all(shape) or container.nchunks == 1:
        return shape
    if not dtype.itemsize or container.chunk_size % dtype.itemsize:
        return None
    nitems = container.chunk_size // dtype.itemsize
    stored = shape[::-1] if is_fortran else shape
    for axis in range(len(stored)):
        inner = prod(stored[axis + 1 :])
        rows, rest = divmod(nitems, inner)
        if rows and not rest and (axis == 0 or stored[axis] % rows == 0):
            chunk = (1,) * axis + (rows,) + stored[axis + 1 :]
            return chunk[::-1] if is_fortran else chunk
    return None


def check_nbytes(container: "Container | Appender", dtype: Dtype, shape: tuple[int, ...]) -> None:
    """Check that the chunks hold exactly one array of this shape."""
    nbytes = prod(shape) * dtype.itemsize
    if nbytes != container.nbytes:
        raise FormatError(
            f"metadata: shape {str(list(shape))[:80]} of {dtype} needs {nbytes} bytes, "
            f"the chunks hold {container.nbytes}",
            field="shape",
        )


def new_array(shape: tuple[int, ...], dtype: Dtype, is_fortran: bool) -> AnyArray:
    """Return a new array in the order of the file; the caller has checked its size."""
    try:
        # np.ndarray, because np.empty turns S0 and U0 into S1 and U1.
        return np.ndarray(shape, dtype, order="F" if is_fortran else "C")
    except ValueError as err:
        raise FormatError(f"metadata: shape {str(list(shape))[:80]}: {err}", field="shape") from err


def stored_view(array: AnyArray, is_fortran: bool) -> memoryview:
    """Return the memory of `array` as writable bytes; it must be contiguous in the given order."""
    if array.nbytes == 0:
        return memoryview(bytearray())
    if array.ndim != 1:
        array = (array.T if is_fortran else array).reshape(-1)
    return array.view(np.uint8).data


def statistics_type() -> "type[Statistics]":
    """Return the class of the statistics of chunks."""
    with importing:  # on use: most files have none
        from ..format.statistics import Statistics

    return Statistics
