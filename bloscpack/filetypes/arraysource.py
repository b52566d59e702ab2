"""Array to be copied, from a file of any type, which is read part by part."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod
from typing import Any, NamedTuple

from ..array.dtype import Dtype
from ..array.layout import Chunks
from ..exceptions import FormatError, UnsupportedError
from ..types import AnyArray

Region = tuple[slice, ...]

# Decoded size of a part that is read at a time, unless a chunk of the source is larger.
PART_NBYTES = 16 << 20


class Rows:
    """Array of another library.

    Parameters
    ----------
    shape, dtype : tuple of int, numpy.dtype
        Shape and dtype of the array.
    read : callable
        Takes a slice of step 1 for each axis, and returns that part of the array.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: Dtype, read: Callable[[Region], AnyArray]
    ) -> None:
        self.shape = tuple(map(int, shape))
        self.dtype = dtype
        self._read = read

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    def read(self, place: Region) -> AnyArray:
        """Return a part of the array.

        Raises
        ------
        FormatError
            The library returns an array of another shape or dtype.
        UnsupportedError
            There is no memory for the part.
        """
        place += (slice(None),) * (len(self.shape) - len(place))
        bounds = [one.indices(length)[:2] for one, length in zip(place, self.shape, strict=True)]
        shape = tuple(stop - start for start, stop in bounds)
        try:
            found = self._read(tuple(slice(*each) for each in bounds))
        except MemoryError as err:
            what = f"not enough memory for {shape} items of {self.dtype}, which chunks share"
            raise UnsupportedError(what) from err
        if found.shape != shape or found.dtype != self.dtype:
            raise FormatError(
                f"the array has {found.dtype} {found.shape} where {self.dtype} {shape} is declared"
            )
        return found

    __getitem__ = read


class ArraySource(NamedTuple):
    """Array to be copied.

    Attributes
    ----------
    rows : array_like
        The array; ranges of its rows are read when they are taken.
    is_fortran : bool
        Whether it is stored in Fortran order.
    chunks : int, tuple of int or None
        Rows per chunk, or shape of the chunks of a grid; None for the default.
    attrs : dict
        Its attrs.
    keepbits : int or None
        Mantissa bits to which its items have been rounded.
    left_out : tuple of str
        Parts of the array in the file that this source lacks; see `inventory`.
    is_raw : bool
        Whether the items are those that the file stores, and no library converted them.
    """

    rows: Any
    is_fortran: bool = False
    chunks: Chunks = None
    attrs: dict[str, Any] = {}  # noqa: RUF012 - a NamedTuple, and it is never changed
    keepbits: int | None = None
    left_out: tuple[str, ...] = ()
    is_raw: bool = True

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes."""
        return int(prod(self.rows.shape) * self.rows.dtype.itemsize)

    @property
    def nrows(self) -> int:
        """Number of rows; 1 for an array without dimensions."""
        shape = self.rows.shape
        return int(shape[-1 if self.is_fortran else 0]) if shape else 1

    @property
    def band_nbytes(self) -> int:
        """Decoded size of all chunks of a grid with the same rows; 0 if there is no grid."""
        if not isinstance(self.chunks, tuple):
            return 0
        rows_per_chunk: int = self.chunks[-1 if self.is_fortran else 0]
        return rows_per_chunk * self.nbytes // self.nrows

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Shape of the chunks; ones where no chunks are known."""
        shape: tuple[int, ...] = self.rows.shape
        if isinstance(self.chunks, tuple):
            return self.chunks
        if not isinstance(self.chunks, int) or not shape:
            return (1,) * len(shape)
        return (*shape[:-1], self.chunks) if self.is_fortran else (self.chunks, *shape[1:])

    def native(self) -> "ArraySource":
        """Return this array in the byte order of this machine."""
        rows = self.rows
        dtype = rows.dtype.newbyteorder("=")
        if dtype == rows.dtype:
            return self
        return self._replace(
            rows=Rows(rows.shape, dtype, lambda place: rows.read(place).astype(dtype))
        )

    def parts(self, *, in_order: bool = False) -> Iterator[Region]:
        """Yield parts of whole chunks and about `PART_NBYTES` that cover the array.

        With `in_order`, the items of each part follow those of the part before as they are stored;
        a part then has at least all chunks with the same rows.
        """
        shape, chunks = self.rows.shape, self.chunk_shape
        if 0 in shape:
            return
        step = -1 if self.is_fortran else 1
        if in_order and isinstance(self.chunks, tuple):
            lead = chunks[::step][0]
            chunks = (lead, *shape[::step][1:])[::step]
        elif in_order:
            chunks = (1,) * len(shape)
        for place in _parts(shape[::step], chunks[::step], self.rows.dtype.itemsize):
            yield place[::step]

    def difference(self, copy: "ArraySource", note: Callable[[int], None]) -> str | None:
        """Return a description of the first difference of a copy, apart from its attrs, or None.

        `note` is called with the bytes of each part that was compared.
        """
        rows, written = self.rows, copy.rows
        is_text = rows.dtype.kind == written.dtype.kind == "U"  # as long as its longest text
        if rows.shape != written.shape or not (is_text or rows.dtype == written.dtype):
            return f"{written.dtype} {written.shape} instead of {rows.dtype} {rows.shape}"
        # Parts of the larger chunks, each of which is decoded once.
        larger = self if copy.band_nbytes <= self.band_nbytes else self._replace(chunks=copy.chunks)
        for place in larger.parts():
            found = rows.read(place)
            if not _is_same(found, written.read(place)):
                return f"the items [{', '.join(f'{one.start}:{one.stop}' for one in place)}]"
            note(found.nbytes)
        return None


class ChoiceError(ValueError):
    """A file has several arrays or none, and the caller has not named one."""


def only(names: tuple[str, ...], what: str, where: str | None) -> str:
    """Return the name of the only array of a file.

    Raises
    ------
    ChoiceError
        `what`, which is at `where`, does not have exactly one array.
    """
    if len(names) != 1:
        place = where or "FILE"
        advice = f"name one, such as '{place}::/{names[0]}': {listed(names)}" if names else ""
        raise ChoiceError(f"{place}: {what} of {len(names)} arrays; {advice or 'nothing to copy'}")
    return names[0]


def listed(names: tuple[str, ...]) -> str:
    """Return the first names of a file, for messages."""
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


class SeveralArrays(NamedTuple):
    """Named arrays to be copied, each opened when it is its turn.

    Attributes
    ----------
    names : tuple of str
        Their names, in order.
    open : callable
        Takes a name, and returns a context manager with an `ArraySource`.
    attrs : mapping
        Attributes of them all.
    left_out : tuple of str
        Everything else in the file; see `inventory`.
    nbytes : int or None
        Size of the only array, if it has no name.
    """

    names: tuple[str, ...]
    open: Callable[[str], AbstractContextManager[ArraySource]]
    attrs: Mapping[str, Any]
    left_out: tuple[str, ...] = ()
    nbytes: int | None = None

    @classmethod
    def of(cls, source: ArraySource, name: str = "") -> "SeveralArrays":
        """Return an open array that is copied alone, under any name."""
        return cls((name,), lambda _: nullcontext(source), {}, nbytes=source.nbytes)

    def noted(self, note: Callable[[ArraySource], None]) -> "SeveralArrays":
        """Return these arrays; `note` is called with each one that is opened."""
        stored = self.open

        @contextmanager
        def opened(name: str) -> Iterator[ArraySource]:
            with stored(name) as source:
                note(source)
                yield source

        return self._replace(open=opened)


def _is_same(one: AnyArray, two: AnyArray) -> bool:
    if one.dtype.names is not None:  # without the bytes between fields
        return all(_is_same(one[name], two[name]) for name in one.dtype.names)
    if one.dtype.kind == "U":
        return bool((one == two).all())
    return one.tobytes() == two.tobytes()  # as bytes: NaN is not equal to NaN


def _parts(shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int) -> Iterator[Region]:
    whole = tuple(slice(0, length) for length in shape)
    if not shape or prod(shape) * itemsize <= PART_NBYTES:
        yield whole
        return
    step = chunks[0]
    band_nbytes = step * prod(shape[1:]) * itemsize
    is_whole = band_nbytes <= PART_NBYTES or chunks[1:] == shape[1:]
    step *= max(1, PART_NBYTES // band_nbytes)
    for start in range(0, shape[0], step):
        rows = slice(start, min(start + step, shape[0]))
        if is_whole:
            yield rows, *whole[1:]
        else:
            for rest in _parts(shape[1:], chunks[1:], itemsize * step):
                yield rows, *rest
