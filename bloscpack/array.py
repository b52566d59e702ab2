"""An array in a file: shape and dtype at once, data as they are indexed.

A selection is turned into the chunks it touches (`selection.py`); each is read, verified and
decoded, only the Blosc blocks it takes where that is less than half of the chunk, and copied into
one result.
"""

import sys
from collections.abc import Iterator
from math import prod
from typing import Any, Self

import numpy as np

from .container.format import Header
from .container.reader import Container
from .exceptions import BloscpackError, FormatError, NotANumpyArray
from .ndarray import (
    AnyArray,
    check_nbytes,
    new_array,
    stored_view,
    unpack_array_metadata,
)
from .selection import Box, parse_selection, pieces, runs
from .storage.file import open_source
from .threads import resolve_nthreads, run_indexed


def load(path: Any, *, out: AnyArray | None = None, nthreads: int | None = None) -> AnyArray:
    """Read a whole array, every chunk verified.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        A Bloscpack file. One without array metadata gives its bytes as uint8.
    out : ndarray, optional
        Receives the data; must have the shape and the dtype of the array.
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.

    Returns
    -------
    ndarray
        New and writable, in the order it was saved; or `out`.

    Raises
    ------
    FormatError, CodecError
        The file is damaged, or of another kind.
    ValueError
        `out` does not fit.
    """
    with Array(path, nthreads=nthreads) as array:
        if out is None:
            return array.read_whole()
        return array.read((), out=out)


class Array:
    """An array in a Bloscpack file: shape and dtype at once, data as they are indexed.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file. One without array metadata is an array of its bytes (uint8).
    verify : bool, default True
        Compare the checksum of each chunk that is read.
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.

    Attributes
    ----------
    shape, dtype, ndim, size, nbytes
        As of an ndarray; `nbytes` is the decoded size in bytes.
    attrs : dict
        The JSON values kept with the array; of a file without array metadata, its metadata.
    is_fortran : bool
        Whether the array is stored in Fortran order.

    Raises
    ------
    FormatError, UnsupportedError
        The file is damaged, of another kind, or of an unknown version.
    OSError
        The file cannot be opened.

    Notes
    -----
    Reading is positional and stateless, so threads may share one Array.
    """

    __slots__ = (
        "_container",
        "_is_open",
        "_nthreads",
        "_path",
        "attrs",
        "dtype",
        "is_fortran",
        "shape",
    )

    def __init__(self, path: Any, *, verify: bool = True, nthreads: int | None = None) -> None:
        self._container = container = Container(open_source(path), verify=verify)
        self._nthreads = nthreads
        self._is_open = True
        try:
            self._describe(container.metadata)
        except BloscpackError as err:
            err.path = container.name
            container.close()
            raise
        except ImportError:
            container.close()
            raise

    def _describe(self, metadata: Any) -> None:
        nbytes = self._container.nbytes
        self.attrs: dict[str, Any]
        try:
            self.dtype, self.shape, self.is_fortran = unpack_array_metadata(metadata)
            attrs = metadata.get("attrs", {})
        except NotANumpyArray:
            self.dtype, self.shape, self.is_fortran = np.dtype(np.uint8), (nbytes,), False
            attrs = metadata
        self.attrs = attrs if isinstance(attrs, dict) else {}
        check_nbytes(self._container, self.dtype, self.shape)

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
        return self._container.nbytes

    @property
    def cbytes(self) -> int:
        """Size of the file in bytes."""
        return self._open_container().source.size()

    @property
    def cratio(self) -> float:
        """Decoded size over the size of the file."""
        return self.nbytes / self.cbytes

    @property
    def header(self) -> Header:
        """The header of the file."""
        return self._container.header

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return self._container.nchunks

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of a chunk; None if chunks are not made of whole rows (along any axis)."""
        shape = self.shape[::-1] if self.is_fortran else self.shape
        nitems = self._container.chunk_size // (self.dtype.itemsize or 1)
        if not shape or not all(shape) or self._container.nchunks == 1:
            return self.shape
        if nitems * self.dtype.itemsize != self._container.chunk_size:
            return None
        for axis in range(len(shape)):
            inner = prod(shape[axis + 1 :])
            rows, rest = divmod(nitems, inner)
            if rows and not rest and (axis == 0 or shape[axis] % rows == 0):
                chunk = (1,) * axis + (rows,) + shape[axis + 1 :]
                return chunk[::-1] if self.is_fortran else chunk
        return None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array of no dimension")
        return self.shape[0]

    def __repr__(self) -> str:
        where = self._container.name or "memory"
        return (
            f"<bloscpack.Array {where!r} shape={self.shape} dtype={self.dtype} "
            f"chunks={self.chunks}{'' if self._is_open else ' (closed)'}>"
        )

    def __getitem__(self, index: Any) -> Any:
        """Read a selection: integers, slices, Ellipsis and None, with numpy's meaning."""
        selection = parse_selection(index, self.shape)
        result = self._read_ranges(selection.ranges).reshape(selection.shape)
        if not selection.is_scalar:
            return result
        if self.dtype.kind == "U":
            # numpy would make a str of them that Python cannot bear.
            points = np.frombuffer(result.tobytes(), self.dtype.byteorder + "u4")
            if points.size and points.max() > sys.maxunicode:
                raise FormatError(f"the item at {index!r} holds code points beyond Unicode")
        return result[()]

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows along the first axis; each chunk is decoded once where rows are whole."""
        step = 1 if self.is_fortran or not self.chunks else self.chunks[0]
        for start in range(0, len(self), max(step, 1)):
            yield from self[start : start + step]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return the whole array for numpy."""
        if copy is False:
            raise ValueError("an array in a file cannot be had without a copy")
        whole = self.read_whole()
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def read(self, selection: Any = (), *, out: AnyArray | None = None) -> AnyArray:
        """Read a selection, into `out` if given.

        Parameters
        ----------
        selection : index, default everything
            As in ``a[selection]``.
        out : ndarray, optional
            Receives the data; must have the shape of the selection and the dtype of the array.

        Returns
        -------
        ndarray
            `out`, or a new array.

        Raises
        ------
        TypeError, ValueError
            `out` is no ndarray, or does not fit.
        FormatError, CodecError
            A chunk is damaged.
        """
        chosen = parse_selection(selection, self.shape)
        if out is None:
            return self._read_ranges(chosen.ranges).reshape(chosen.shape)
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out must be an ndarray, not {type(out).__name__!r}")
        if out.shape != chosen.shape or out.dtype != self.dtype or not out.flags.writeable:
            raise ValueError(
                f"out must be writable, of shape {chosen.shape} and dtype {self.dtype}, "
                f"not {out.shape} and {out.dtype}"
            )
        flags = out.flags.f_contiguous if self.is_fortran else out.flags.c_contiguous
        if flags and chosen.lengths == self.shape == chosen.shape and _is_forward(chosen.ranges):
            self._read_stored(out)
        else:
            out[...] = self._read_ranges(chosen.ranges).reshape(chosen.shape)
        return out

    def read_whole(self) -> AnyArray:
        """Return the whole array, new and writable, in the order it was saved."""
        container = self._open_container()
        container.check_size(self.nbytes)
        result = new_array(self.shape, self.dtype, self.is_fortran)
        self._read_stored(result)
        return result

    def read_chunk(self, index: int) -> bytes:
        """Return the decoded bytes of chunk `index`, new.

        Raises
        ------
        IndexError
            `index` is not 0 to ``nchunks - 1``.
        ChecksumMismatch, FormatError, CodecError
            The chunk is damaged; the message names file, chunk and bytes.
        """
        return self._open_container().read_chunk(index)

    def read_chunk_into(self, index: int, buf: Any) -> int:
        """Decode chunk `index` into `buf` and return the number of bytes.

        Parameters
        ----------
        index : int
            Chunk ordinal, ``0 <= index < nchunks``.
        buf : writable buffer
            Contiguous, of at least the decoded size of the chunk.
        """
        container = self._open_container()
        view = memoryview(buf).cast("B")
        nbytes = container.chunk_nbytes(index)
        if len(view) < nbytes:
            raise ValueError(f"buf has {len(view)} bytes, chunk {index} needs {nbytes}")
        container.read_chunk_into(index, view[:nbytes])
        return nbytes

    def chunk_offset(self, index: int) -> int:
        """Return the position of chunk `index` in the file, in bytes."""
        return self._open_container().fetch(index).offset

    def iter_chunks(self) -> Iterator[bytes]:
        """Yield the decoded bytes of each chunk in order."""
        return self._open_container().iter_chunks()

    def close(self) -> None:
        """Close the file; idempotent. Shape, dtype and attrs stay."""
        self._is_open = False
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _open_container(self) -> Container:
        if not self._is_open:
            raise ValueError("I/O operation on a closed bloscpack.Array")
        return self._container

    def _read_stored(self, result: AnyArray) -> None:
        """Decode everything into `result`, contiguous in the order of the file."""
        target = stored_view(result, self.is_fortran)
        self._open_container().read_into(target, nthreads=self._nthreads)

    def _read_ranges(self, ranges: Box) -> AnyArray:
        """Return the items at `ranges`, one dimension for each axis of the array."""
        container = self._open_container()
        lengths = tuple(len(side) for side in ranges)
        itemsize = self.dtype.itemsize
        # Every writer cuts between items; where one did not, the pieces are joined first.
        cut = itemsize > 0 and container.nchunks > 1 and container.chunk_size % itemsize > 0
        if lengths == self.shape and _is_forward(ranges):
            return self.read_whole()
        if cut:
            return self.read_whole()[tuple(map(_slice_of, ranges))]
        container.check_size(prod(lengths) * itemsize)
        result = new_array(lengths, self.dtype, self.is_fortran)
        if result.nbytes == 0:
            return result
        stored, shape, wanted = result, self.shape, ranges
        if self.is_fortran:
            stored, shape, wanted = result.T, shape[::-1], ranges[::-1]
        total = prod(shape)
        last = container.nchunks - 1
        step = container.chunk_size // itemsize if last else total
        # Structured items are copied as a whole: field by field would leave out their padding.
        item = self.dtype if self.dtype.names is None else np.dtype((np.void, itemsize))
        stored = stored.view(item)

        def read(chunk: int) -> None:
            start = chunk * step
            stop = start + step if chunk < last else total
            found = list(pieces(start, stop, shape, wanted))
            if not found:
                return
            # The span of the items wanted: Blosc blocks outside it are not decoded.
            low = min(piece.first for piece in found) - start
            high = max(piece.last for piece in found) + 1 - start
            if 2 * (high - low) > stop - start:
                first, data = 0, bytearray(container.read_chunk(chunk))
            else:
                first, data = low * itemsize, bytearray((high - low) * itemsize)
                container.read_bytes_into(chunk, first, data)
            for piece in found:
                offset = (piece.origin - start) * itemsize - first
                strides = tuple(items * itemsize for items in piece.steps)
                stored[piece.target] = np.ndarray(piece.lengths, item, data, offset, strides)

        # Version 2 allows a last chunk that is larger than the others.
        chunks = list(dict.fromkeys(min(chunk, last) for chunk in runs(shape, wanted, step)))
        nbytes = min(len(chunks) * container.chunk_size, self.nbytes)
        run_indexed(read, chunks, resolve_nthreads(self._nthreads, nbytes))
        return result


def _slice_of(side: range) -> slice:
    """Return the slice that takes the indices of `side`, which are not negative."""
    if not side:
        return slice(0, 0)
    return slice(side.start, side.stop if side.stop >= 0 else None, side.step)


def _is_forward(ranges: Box) -> bool:
    """Return whether `ranges`, as long as their axes, take them as they are."""
    return all(side.step == 1 or len(side) <= 1 for side in ranges)
