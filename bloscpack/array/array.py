"""An array in a file: shape and dtype at once, data as they are indexed.

An index is parsed by `selection.py`; `gather.py` reads the chunks it touches into one result,
`tolerant.py` does where damage is to be read around.
"""

import os
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Never, Self, TypeVar, overload

import numpy as np

from ..container.identity import changed, check_identity, identity_of, place_of, token_of
from ..container.reader import Container, Verify
from ..container.refresh import refreshed
from ..exceptions import BloscpackError, NotANumpyArray
from ..format.header import Header
from ..storage.file import open_source
from ..storage.url import refuse_url
from ..types import AnyArray
from .attrs import read_only
from .display import Facts, html_table, one_line
from .fields import Names, field_names, gather_fields
from .gather import as_target, gather, read_row
from .layout import Description, check_nbytes, describe_array, new_array, stored_view
from .rowappender import RowAppender
from .rows import check_text, iter_rows
from .selection import parse_selection
from .tolerant import check_on_error, gather_rest, iter_readable_chunks

Out = TypeVar("Out")


class Array:
    """An array in a Bloscpack file: shape and dtype at once, data as they are indexed.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file, or a URL of it. One without array metadata is an array of its bytes (uint8).
    mode : {"r", "a"}, default "r"
        "a" to append too, which needs a path.
    verify : bool or "always", default True
        Compare the checksum of each chunk once, the first time it is read; at every read
        ("always"); or never (False).
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.
    storage_options : mapping, optional
        For a URL: what fsspec's file system for it takes.
    locking : bool, default True
        Lock the file in mode "a", so that a second writer is refused; see `bloscpack.open`.

    Attributes
    ----------
    shape, dtype, ndim, size, nbytes
        As of an ndarray; `nbytes` is the decoded size in bytes.
    attrs : dict
        The JSON values kept with the array; of a file without array metadata, its metadata. In
        mode "a" a change, of nested values too, is in the file after `flush` or `close`. In mode
        "r" an attempt to change them raises TypeError; ``copy.deepcopy(a.attrs)`` can be changed.
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
    Reading is positional and stateless, so threads and forked children may share one Array. It
    pickles, and is copied, as the path of its file and what tells whether that has changed
    (`FileChangedError`); one over bytes pickles these, one over a file object refuses.
    """

    __slots__ = (
        "_attrs",
        "_container",
        "_is_open",
        "_is_seen",
        "_nthreads",
        "_rows",
        "_shown_attrs",
        "dtype",
        "is_fortran",
        "shape",
    )

    def __init__(
        self,
        path: Any,
        mode: str = "r",
        *,
        verify: Verify = True,
        nthreads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        locking: bool = True,
    ) -> None:
        self._nthreads = nthreads
        self._is_open = self._is_seen = True
        self._rows: RowAppender | None = None
        if mode == "a":
            refuse_url(path, "appended to")
            self._open_rows(path, verify, locking)
            return
        self._container = container = Container(open_source(path, storage_options), verify=verify)
        try:
            self._describe()
        except BloscpackError as err:
            err.path = container.name
            container.close()
            raise
        except ImportError:
            container.close()
            raise

    def _describe(self) -> None:
        container = self._container
        try:
            self.dtype, self.shape, self.is_fortran = describe_array(container)
        except NotANumpyArray:
            self.dtype, self.is_fortran = np.dtype(np.uint8), False
            self.shape = (container.nbytes,)
        # Decoded when they are asked for.
        self._attrs: dict[str, Any] | None = None
        self._shown_attrs: dict[str, Any] | None = None
        check_nbytes(self._container, self.dtype, self.shape)

    @property
    def attrs(self) -> dict[str, Any]:
        """The JSON values kept with the array."""
        if self._rows is not None and self._is_open and self._rows.keeps_attrs:
            return self._rows.attrs
        if self._shown_attrs is None:
            attrs = self._stored_attrs() if self._attrs is None else self._attrs
            self._shown_attrs = read_only(attrs, self._attrs_advice())
        return self._shown_attrs

    @attrs.setter
    def attrs(self, attrs: Mapping[str, Any]) -> None:
        if self._rows is None or not self._is_open:
            raise TypeError(f"the file would not change: {self._attrs_advice()}")
        self._rows.replace_attrs(attrs)

    def _stored_attrs(self) -> dict[str, Any]:
        metadata = self._container.metadata
        if not isinstance(metadata, dict):
            return {}
        is_array = metadata.get("container") == "numpy"
        attrs = metadata.get("attrs", {}) if is_array else metadata
        return attrs if isinstance(attrs, dict) else {}

    def _attrs_advice(self) -> str:
        if self._rows is not None and self._is_open:
            return "it has no metadata section, so that it can have no attrs"
        return (
            "open it with mode 'a' to change its attrs; copy.deepcopy(attrs) gives values of your "
            "own"
        )

    @property
    def name(self) -> str | None:
        """The path as it was given, or the URL; None for bytes."""
        return self._container.name

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
        return self._known_container().header

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return self._known_container().nchunks

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of a chunk; None if chunks are not made of whole rows (along any axis)."""
        shape = self.shape[::-1] if self.is_fortran else self.shape
        container = self._known_container()
        nitems = container.chunk_size // (self.dtype.itemsize or 1)
        if not shape or not all(shape) or container.nchunks == 1:
            return self.shape
        if nitems * self.dtype.itemsize != container.chunk_size:
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
        return one_line(self._facts(), is_open=self._is_open)

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        cbytes = self.cbytes if self._is_open else None
        return html_table(self._facts(), self.nbytes, cbytes, self.attrs)

    def _facts(self) -> Facts:
        name = self._container.name or "memory"
        return Facts(name, self.shape, self.dtype, self.nchunks, self.chunks)

    def __getitem__(self, index: Any) -> Any:
        """Read a selection, with numpy's meaning.

        Integers, slices, Ellipsis, None, and one list, integer array or one-dimensional mask. The
        name of a field of a structured array, or a list of names, gives these fields of all items,
        read a few chunks at a time. Errors as for `read`.
        """
        shape = self.shape
        if type(index) is int and len(shape) > 1 and not self.is_fortran:
            # The usual small read must not pay for what others need.
            row = index + shape[0] if index < 0 else index
            if 0 <= row < shape[0]:
                result = read_row(self._open_container(), self.dtype, shape[1:], row)
                if result is not None:
                    return result
        names = field_names(index, self.dtype)
        if names is not None:
            return gather_fields(
                self._open_container(), self._described(), names, nthreads=self._nthreads
            )
        selection = parse_selection(index, shape)
        result = gather(
            self._open_container(), self._described(), selection, nthreads=self._nthreads
        )
        if not selection.is_scalar:
            return result
        check_text(result)
        return result[()]

    @property
    def oindex(self) -> "OuterIndexer":
        """The array indexed along each axis by itself: ``a.oindex[[2, 0], :, mask]``.

        Takes a list, array or mask for any number of axes; the result has all combinations, as
        with ``numpy.ix_``, without the axes of integers.
        """
        return OuterIndexer(self)

    def __setitem__(self, index: Any, value: Any) -> Never:
        raise TypeError(
            "arrays in files are not changed in place: read, change and save them; "
            "rows can be appended"
        )

    def __delitem__(self, index: Any) -> Never:
        raise TypeError("items cannot be deleted from an array in a file: save what is to stay")

    def __contains__(self, value: Any) -> Never:
        raise TypeError("use 'value in a[...]', which reads the whole array")

    def __eq__(self, other: object) -> Never:
        raise TypeError("use 'a[...] == other', which reads the whole array; 'a is b' for identity")

    __hash__ = object.__hash__

    def __bool__(self) -> Never:
        raise TypeError("an array has no truth value: ask for a.size, or a[...].any()")

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows along the first axis; each chunk is decoded once.

        Rows of an array in Fortran order take part of every chunk: it is read as a whole.
        """
        if not self.shape:
            raise TypeError("iteration over an array of no dimension")
        self._open_container()
        return self._iter_rows()

    def _iter_rows(self) -> Iterator[Any]:
        for row in iter_rows(self._container, self._described(), self._nthreads):
            yield row
            self._open_container()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return the whole array for numpy, new.

        Raises
        ------
        ValueError
            `copy` is False: an array in a file cannot be had without one.
        """
        if copy is False:
            raise ValueError("an array in a file cannot be had without a copy")
        whole = self.read_whole()
        return whole if dtype is None else whole.astype(dtype, copy=False)

    @overload
    def read(
        self,
        selection: Any = (),
        *,
        out: None = None,
        on_error: str = "raise",
        fill_value: Any = 0,
    ) -> AnyArray: ...
    @overload
    def read(
        self, selection: Any = (), *, out: Out, on_error: str = "raise", fill_value: Any = 0
    ) -> Out: ...
    def read(
        self, selection: Any = (), *, out: Any = None, on_error: str = "raise", fill_value: Any = 0
    ) -> Any:
        """Read a selection, into `out` if given.

        Parameters
        ----------
        selection : index, default everything
            As in ``a[selection]``.
        out : ndarray or writable buffer, optional
            Receives the data. An ndarray must have the shape of the selection and the dtype of the
            array, in any layout. Anything else (bytearray, mmap, array.array, a tensor of torch in
            main memory) must be contiguous and have exactly the number of bytes of the selection,
            which are put there in C order.
        on_error : {"raise", "fill", "skip"}, default "raise"
            What to do about chunks that cannot be read: raise the error of the first; set their
            items to `fill_value`; or leave every index along the first axis of the result out
            that needs one of them. The last two list the lost chunks in a `BloscpackWarning`.
        fill_value : scalar, default 0
            For "fill". Must fit the dtype; 0 stands for zero bytes with any dtype, and structured
            dtypes take no other.

        Returns
        -------
        ndarray
            A new array, of no dimension where ``a[selection]`` is a scalar; or `out`.

        Raises
        ------
        IndexError, TypeError
            The selection is out of bounds, or of a kind that is not supported.
        ValueError, KeyError
            There is no field of a name; a KeyError for a list of names, as with numpy.
        TypeError, ValueError
            `out`, `on_error` or `fill_value` does not fit.
        FormatError, CodecError
            A chunk is damaged. What `out` holds then is not defined.
        OSError
            The file cannot be read, whatever `on_error` is.

        Notes
        -----
        Every chunk that holds something of the selection is read once, and no other.
        """
        check_on_error(on_error)
        names = field_names(selection, self.dtype)
        if names is not None:
            return self._read_fields(names, out, on_error, fill_value)
        chosen = parse_selection(selection, self.shape)
        container, described = self._open_container(), self._described()
        target = None if out is None else as_target(out, chosen.shape, self.dtype)
        if on_error == "raise":
            result = gather(container, described, chosen, out=target, nthreads=self._nthreads)
        else:
            result = gather_rest(
                container,
                described,
                chosen,
                out=target,
                nthreads=self._nthreads,
                on_error=on_error,
                fill_value=fill_value,
            )
        return result if out is None else out

    def _read_fields(self, names: Names, out: Any, on_error: str, fill_value: Any) -> Any:
        container, described = self._open_container(), self._described()
        if on_error == "raise":
            found = gather_fields(container, described, names, out=out, nthreads=self._nthreads)
            return found if out is None else out
        if out is not None:
            raise ValueError(f"fields with on_error={on_error!r} are read without out")
        whole = self.read(on_error=on_error, fill_value=fill_value)
        return whole[names].copy()

    def read_whole(self) -> AnyArray:
        """Return the whole array, new and writable, in the order it was saved."""
        container = self._open_container()
        container.check_size(self.nbytes)
        result = new_array(self.shape, self.dtype, self.is_fortran)
        container.read_into(stored_view(result, self.is_fortran), nthreads=self._nthreads)
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

    def iter_chunks(self, *, on_error: str = "raise") -> Iterator[bytes]:
        """Yield the decoded bytes of each chunk in order.

        With ``on_error="skip"`` chunks that cannot be read are left out, with a `BloscpackWarning`
        at the first and one at the end.
        """
        check_on_error(on_error, ("raise", "skip"))
        container = self._open_container()
        if on_error == "skip":
            return iter_readable_chunks(container, self._described())
        return container.iter_chunks()

    @property
    def mode(self) -> str:
        """Whether rows can be appended: "r" or "a"."""
        return "r" if self._rows is None else "a"

    def append(self, rows: Any) -> None:
        """Put rows at the end: along the first axis, the last of an array in Fortran order.

        Parameters
        ----------
        rows : array_like
            Of the shape of this array but for the axis that grows, or one row without that axis;
            of its dtype, or one that can be cast to it without loss. Copied or compressed before
            this returns.

        Raises
        ------
        TypeError, ValueError
            They do not fit, and nothing was taken; or the file is not open for appending.
        LockedError
            The handle was made before a fork, in another process.
        OSError
            Writing failed. Nothing more is taken, and `close` goes back to the last `flush`.

        Notes
        -----
        This handle reads them at once; the file has them after `flush` or `close`.
        """
        self._writable_rows().append(rows)
        self._note_rows()

    def update_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Set some of the attrs; the file has them after `flush` or `close`.

        Raises
        ------
        TypeError, ValueError
            They are no JSON values; or the file has no place for them, or is not open for
            appending.
        """
        self._writable_rows().update_attrs(attrs)

    def flush(self) -> None:
        """Make everything durable that was appended, and let other readers see it.

        Nothing is done if nothing was appended. Raises OSError if it fails; the file is then, or
        goes back by `close` to, what it was at the flush before.
        """
        self._writable_rows().flush()
        self._is_seen = False

    def refresh(self) -> None:
        """See what a writer has appended since the file was opened.

        Raises
        ------
        FileChangedError
            The file is another one, or holds less: open it anew.
        OSError
            It is gone.
        """
        container = self._open_container()
        if self._rows is None:
            later = refreshed(container)
            if later is not None:
                self._container = later
                self._describe()

    def close(self) -> None:
        """Close the file, with all that was appended; idempotent. Shape, dtype and attrs stay."""
        if self._rows is not None and self._is_open:
            self._attrs, self._shown_attrs = self._rows.attrs, None
        is_open, self._is_open = self._is_open, False
        if self._rows is not None and is_open:
            self._rows.close()
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        if kind is not None and self._rows is not None and self._is_open:
            self._is_open = False
            self._attrs, self._shown_attrs = self._rows.committed_attrs, None
            self._rows.abandon()  # what came since the last flush may be half of something
        self.close()

    def _open_rows(self, path: Any, verify: Verify, locking: bool) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"mode 'a' needs a path, not {type(path).__name__!r}")
        rows = RowAppender.open(path, nthreads=self._nthreads, locking=locking)
        try:
            self._container = rows.view(verify=verify)
            self._describe()
        except BaseException:
            rows.abandon()
            raise
        self._rows = rows

    def _writable_rows(self) -> RowAppender:
        if not self._is_open:
            raise ValueError("I/O operation on a closed bloscpack.Array")
        if self._rows is None:
            raise ValueError("the file is open for reading; open it with mode 'a' to append")
        return self._rows

    def _note_rows(self) -> None:
        """Take the new shape; the file is looked at when something is read."""
        if self._rows is not None:
            self.shape = self._rows.shape
            self._is_seen = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the place of the file and its identity, not as its content."""
        if self._rows is not None:
            raise TypeError(
                "an array open for appending cannot be pickled or copied: open it by its path"
            )
        container = self._open_container()
        place = place_of(container.source, container.front_nbytes)
        identity = identity_of(container)
        return _reopen, (place, identity, container.verify, self._nthreads)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        """Return what Dask names this array by: equal while path and content are."""
        return "bloscpack.Array", *token_of(self._open_container())

    def _open_container(self) -> Container:
        if not self._is_open:
            raise ValueError("I/O operation on a closed bloscpack.Array")
        if self._rows is not None and not self._is_seen:
            self._container = self._rows.view(verify=self._container.verify)
            self._is_seen = True
        return self._container

    def _known_container(self) -> Container:
        return self._open_container() if self._is_open else self._container

    def _described(self) -> Description:
        return self.dtype, self.shape, self.is_fortran


class OuterIndexer:
    """What `Array.oindex` gives: selects along each axis independently."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> AnyArray:
        """Read all combinations of the indices given for each axis; errors as for `Array.read`."""
        array = self._array
        chosen = parse_selection(index, array.shape, outer=True)
        return gather(array._open_container(), array._described(), chosen, nthreads=array._nthreads)


def _reopen(place: Any, identity: bytes, verify: Any, nthreads: int | None) -> Array:
    """Return the array that was pickled, opened anew.

    Raises
    ------
    FileChangedError
        The file is not the one that was open.
    """
    try:
        array = Array(place, verify=verify, nthreads=nthreads)
    except BloscpackError as err:
        # It could be opened then.
        raise changed(err.path) from err
    try:
        check_identity(array._container, identity)
    except BloscpackError:
        array.close()
        raise
    return array


@overload
def load(
    path: Any,
    *,
    out: None = None,
    nthreads: int | None = None,
    on_error: str = "raise",
    fill_value: Any = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> AnyArray: ...
@overload
def load(
    path: Any,
    *,
    out: Out,
    nthreads: int | None = None,
    on_error: str = "raise",
    fill_value: Any = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Out: ...
def load(
    path: Any,
    *,
    out: Any = None,
    nthreads: int | None = None,
    on_error: str = "raise",
    fill_value: Any = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Read a whole array, every chunk verified.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        A Bloscpack file, or a URL of one. One without array metadata gives its bytes as uint8.
    out, on_error, fill_value
        As for `Array.read`.
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.
    storage_options : mapping, optional
        For a URL: what fsspec's file system for it takes (keys, ``endpoint_url``, ``headers``).

    Returns
    -------
    ndarray
        New and writable, in the order it was saved; or `out`.

    Raises
    ------
    FormatError, CodecError
        The file is damaged, or of another kind.
    ValueError, TypeError
        `out`, `on_error` or `fill_value` does not fit.
    OSError
        It cannot be read; `RemoteError` if a server cannot be reached.
    """
    with Array(path, nthreads=nthreads, storage_options=storage_options) as array:
        return array.read((), out=out, on_error=on_error, fill_value=fill_value)
