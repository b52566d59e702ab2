"""Array in a ``.npy`` file, read and written by ranges of items, without mapping it to memory."""

import ast
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from math import prod
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from ..plugin import (
    Add,
    AnyArray,
    ArrayFormat,
    ArraySource,
    ArrayWriter,
    BytesLike,
    ByteSource,
    Dtype,
    FormatError,
    ObjectNumpyArrayRejection,
    SeveralArrays,
    TruncatedError,
    UnsupportedError,
    contiguous_run,
    new_array,
    refuse_inner,
    stored_view,
    without_attrs,
)
from .library import errors_of, refuse_units

# numpy reads no header of more than 10,000 bytes.
HEAD_NBYTES = 16 << 10
_LENGTH_NBYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
# Integers as Python 2 wrote them: 3L.
_LONG = re.compile(rb"(?<=[0-9])L(?=[,)])")


@contextmanager
def open_npy(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield the array in a ``.npy`` file, without reading its items.

    The file may have more behind it, as `numpy.save` adds arrays to an open file.
    """
    refuse_inner(inner, "a .npy file")
    yield SeveralArrays.of(npy_array(source))


def npy_array(source: ByteSource) -> ArraySource:
    """Return the array in a ``.npy`` file.

    Raises
    ------
    FormatError, UnsupportedError
        The file is damaged, or of an unknown version.
    ObjectNumpyArrayRejection
        Its items are Python objects.
    """
    with errors_of(".npy file", source.name):
        start, shape, is_fortran, dtype = read_header(source.read_at(0, HEAD_NBYTES))
    if dtype.hasobject:
        raise ObjectNumpyArrayRejection(
            f".npy file of Python objects ({dtype}), which are not unpickled; if you trust it, "
            "numpy.load(path, allow_pickle=True) does"
        ).at(path=source.name)
    rows = ItemRows(source, start, shape, dtype, is_fortran=is_fortran, what=".npy file")
    left_out: list[str] = []
    rest = source.size() - rows.stop
    if rest > 0:
        magic = bytes(source.read_at(rows.stop, len(npy.MAGIC_PREFIX)))
        what = "a second array" if magic == npy.MAGIC_PREFIX else "trailing bytes"
        left_out.append(f"{what}: {rest} bytes")
    return ArraySource(rows, rows.is_fortran, left_out=tuple(left_out))


class NpyWriter(ArrayWriter):
    """Writes the array of a ``.npy`` file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def check(self, name: str, source: ArraySource) -> None:
        """Raise UnsupportedError for items that the format cannot describe."""
        _description(source.rows.dtype)

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        """Write the array."""
        with open(self._path, "xb") as file:
            write_npy(file, source, add)


def write_npy(stream: IO[bytes], source: ArraySource, add: Add) -> None:
    """Write a ``.npy`` file to a stream; call `add` with the bytes of each part.

    Raises
    ------
    UnsupportedError
        The format cannot describe the items.
    """
    rows = source.rows
    descr = _description(rows.dtype)
    header = {"descr": descr, "fortran_order": source.is_fortran, "shape": rows.shape}
    try:
        npy.write_array_header_1_0(stream, header)
    except UnicodeEncodeError:  # names of fields that need UTF-8
        text = repr(header).encode()
        text += b" " * (-(npy.MAGIC_LEN + 4 + len(text) + 1) % npy.ARRAY_ALIGN) + b"\n"
        stream.write(npy.magic(3, 0) + len(text).to_bytes(4, "little") + text)
    except ValueError:  # too long: many fields
        npy.write_array_header_2_0(stream, header)
    for place in source.parts(in_order=True):
        part = rows.read(place)
        stream.write(part.tobytes("F" if source.is_fortran else "C"))
        add(part.nbytes)


def _description(dtype: Dtype) -> Any:
    with suppress(ValueError):  # fields that overlap
        found = npy.dtype_to_descr(dtype)
        if npy.descr_to_dtype(found) == dtype:
            return found
    raise UnsupportedError(f"a .npy file cannot hold items of {dtype}")


def read_header(head: BytesLike) -> tuple[int, tuple[int, ...], bool, Dtype]:
    """Return where the items begin, the shape, whether the order is Fortran's, and the dtype.

    Besides ValueError, numpy raises TokenError, TypeError and IndexError for damaged headers.
    """
    stream = io.BytesIO(head)
    version = npy.read_magic(stream)
    if version not in _LENGTH_NBYTES:
        raise UnsupportedError(f".npy file: version {version}")
    length = int.from_bytes(stream.read(_LENGTH_NBYTES[version]), "little")
    text = stream.read(length)
    if len(text) < length:
        raise ValueError(f"a header of {length} bytes is too long, or cut off")
    if version == (3, 0):  # numpy's public functions read Latin-1
        text = text.decode().encode("ascii", "backslashreplace")
    try:
        found = ast.literal_eval(text.decode("latin-1"))
    except SyntaxError:
        text = _LONG.sub(b"", text)
        found = ast.literal_eval(text.decode("latin-1"))
    refuse_units(repr(found))
    header = io.BytesIO(len(text).to_bytes(4, "little") + text)
    shape, is_fortran, dtype = npy.read_array_header_2_0(header, 3 * HEAD_NBYTES)
    if dtype.subdtype is not None:
        raise ValueError(f"the items of an array cannot be arrays: {dtype}")
    np.empty((0,) * len(shape))  # raises for more axes than numpy has
    return stream.tell(), shape, is_fortran, dtype


class ItemRows:
    """Array whose items are adjacent in a file, read by ranges of items.

    Raises
    ------
    FormatError
        The shape is invalid, or the file is too short.
    """

    def __init__(
        self,
        source: ByteSource,
        start: int,
        shape: tuple[int, ...],
        dtype: Dtype,
        *,
        is_fortran: bool,
        what: str,
    ) -> None:
        self._source = source
        self._start = start
        self.shape, self.dtype = shape, dtype
        if not all(type(length) is int and 0 <= length < 1 << 63 for length in shape):
            raise FormatError(f"{what}: shape {shape!r:.80}").at(path=source.name, whole="")
        # With fewer than two axes longer than 1, both orders have the same bytes.
        self.is_fortran = is_fortran and sum(length != 1 for length in shape) > 1
        nbytes = prod(shape) * dtype.itemsize
        self.stop = start + nbytes
        if nbytes and source.size() < self.stop:
            raise TruncatedError(
                f"{what}: found {source.size() - start} of {nbytes} bytes of items"
            ).at(path=source.name, whole="")

    def read(self, place: tuple[slice, ...]) -> AnyArray:
        """Return a part of the array whose items are adjacent in the file."""
        place += (slice(None),) * (len(self.shape) - len(place))
        sides = [range(length)[one] for length, one in zip(self.shape, place, strict=True)]
        result = new_array(tuple(map(len, sides)), self.dtype, self.is_fortran)
        content = stored_view(result, self.is_fortran)
        if content:
            step = -1 if self.is_fortran else 1
            run = contiguous_run(self.shape[::step], tuple(sides[::step]))
            if run is None:  # one of the rows after the other
                axis = max(range(len(sides)), key=lambda k: (len(sides[k]) > 1, -step * k))
                for number, index in enumerate(sides[axis]):
                    row = (*place[:axis], slice(index, index + 1), *place[axis + 1 :])
                    at = (slice(None),) * axis + (slice(number, number + 1),)
                    result[at] = self.read(row)
                return result
            position = self._start + run[0] * self.dtype.itemsize
            content[:] = self._source.read_at(position, len(content))
        return result

    __getitem__ = read


_FORMAT = ArrayFormat(
    "npy",
    open_npy,
    lambda path, arrays, job: nullcontext(NpyWriter(path)),
    without_attrs,
    place=None,
)
copy_to_npy = _FORMAT.copy
