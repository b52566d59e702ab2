"""Array in a Bloscpack file: shape and dtype on opening, data when indexed.

`selection.py` parses an index and `gather.py` reads the chunks it touches into one result. With
`on_error` other than "raise", `tolerant.py` reads around damaged chunks.
"""

import operator
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import numpy as np

from ..container.front import Verify
from ..container.identity import identity_of, place_of, refreshed, reopened, token_of
from ..container.reader import Container
from ..exceptions import BloscpackError
from ..format.header import MAX_HEADER_SIZE, is_log
from ..parallel.imports import importing
from ..parallel.threads import resolve_nthreads
from ..storage.file import Place, open_source, refuse_folder
from ..storage.protocol import ByteSource, closed_on_error
from ..storage.url import refuse_url
from ..types import AnyArray, ArrayMode, OnLostChunk
from .arraymetadata import Description, StoredArray, describe_content, new_array, stored_view
from .attrs import attrs_in, dims_of, plain, read_only
from .gather import Names, as_target, field_names, gather, gather_fields, gather_whole
from .rowiteration import check_text, iter_changing, iter_rows
from .selection import parse_selection
from .tolerant import check_on_error, gather_rest, iter_readable_chunks

if TYPE_CHECKING:
    from .axislabels import Coord
    from .changes import ArrayChanges
    from .writable import WritableArray

Out = TypeVar("Out")

# Rows up to this size are allocated when only the file's header has been checked.
_MAX_ROW_NBYTES = 1 << 20
_MAX_DTYPE = 200  # characters of a dtype in `repr`


class Array(StoredArray):
    """Array in a Bloscpack file: shape and dtype on opening, data when indexed.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file or its URL. A file without array metadata is an array of its bytes (uint8).
    mode : {"r", "a"}, default "r"
        "r" to read, "a" to read and append; "a" needs a path.
    verify : bool or "always", default True
        Compare the checksum of each chunk the first time it is read (True), at every read
        ("always"), or never (False).
    nthreads : int, optional
        Number of decoding threads. Default: the number of processors, at most 8.
    storage_options : mapping, optional
        Arguments for the fsspec file system of a URL.
    locking : bool, default True
        Lock the file in mode "a", so that a second writer is refused; see `bloscpack.open`.
    version : int, default -1
        Version to read; see `bloscpack.open`.
    keep : int, optional
        How many versions before the newest are kept; see `bloscpack.open`.

    Attributes
    ----------
    shape, dtype, ndim, size, nbytes
        As for an ndarray; `nbytes` is the decoded size in bytes.
    attrs : dict
        JSON values stored with the array. For a file without array metadata: its metadata. In
        mode "a", changes (also of nested values) are written by `flush` or `close`. In mode "r",
        changing them raises TypeError; ``copy.deepcopy(a.attrs)`` returns a copy that can be
        changed.
    is_fortran : bool
        Whether the array is stored in Fortran order.

    Raises
    ------
    FormatError, UnsupportedError
        The file is damaged, of another type, or of an unknown version.
    OSError
        The file cannot be opened.

    Notes
    -----
    Reading is positional and stateless, so threads and forked children may share one Array. A
    pickle or copy contains the path of the file and a digest of its state; reopening a file that
    has changed raises `FileChangedError`. An Array over bytes pickles the bytes; one over a file
    object cannot be pickled.
    """

    __slots__ = (
        "_attrs",
        "_described",
        "_mode",
        "_nthreads",
        "_shown_attrs",
        "_version",
    )

    def __init__(
        self,
        path: Any,
        mode: ArrayMode = "r",
        *,
        verify: Verify = True,
        nthreads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        locking: bool = True,
        version: int = -1,
        keep: int | None = None,
    ) -> None:
        if version != -1 or keep is not None:
            check_versions(mode, version, keep)
        if nthreads is not None:
            resolve_nthreads(nthreads, 0)  # small reads do not look at it
        self._nthreads = nthreads
        self._mode = mode
        self._version = operator.index(version)
        self._is_open = self._is_seen = True
        self._rows: WritableArray | None = None
        # Decoded on first use.
        self._attrs: dict[str, Any] | None = None
        self._shown_attrs: dict[str, Any] | None = None
        place = path if isinstance(path, ByteSource) else Place.of(path)
        if mode != "r":
            place = place if isinstance(place, Place) else Place(place)
            done = "appended to" if mode == "a" else "changed"
            refuse_url(place.path, done, storage_options)
            self._set_rows(_open_rows(place, mode, nthreads, locking, keep), verify)
            return
        source = path
        if isinstance(place, Place):
            source = _open(place, storage_options, self._version)
        self._container = container = Container.open(source, verify=verify, version=self._version)
        try:
            self._described = describe_content(container)
        except (BloscpackError, ImportError) as err:
            if isinstance(err, BloscpackError):
                err.at(path=container.name)
            container.close()
            raise

    @property
    def attrs(self) -> dict[str, Any]:
        """JSON values stored with the array."""
        if self._rows is not None and self._is_open and self._rows.keeps_attrs:
            return self._rows.attrs
        if self._shown_attrs is None:
            attrs = attrs_in(self._container.metadata) if self._attrs is None else self._attrs
            self._shown_attrs = read_only(attrs, self._attrs_advice())
        return self._shown_attrs

    @attrs.setter
    def attrs(self, attrs: Mapping[str, Any]) -> None:
        if self._rows is None or not self._is_open:
            raise TypeError(f"the file would not change: {self._attrs_advice()}")
        self._rows.replace_attrs(attrs)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes; ``dim_0`` and so on if the file has none.

        Raises UnsupportedError if those in the attrs do not fit the array.
        """
        return dims_of(self.attrs, self.shape)

    @property
    def coords(self) -> "dict[str, Coord]":
        """Coordinates by name, each with ``dims``, ``values`` and ``attrs``.

        Values of evenly spaced coordinates, and of those that are arrays of the same archive, are
        computed or read when they are asked for. Raises UnsupportedError if those in the attrs do
        not fit the array.
        """
        with importing:
            from .axislabels import Labels

        return Labels.unpack(plain(self.attrs), self.shape, open_array=self._open_other).coords

    def _open_other(self, name: str) -> "Array":
        """Open another array of the same archive.

        Raises
        ------
        NotFoundError
            There is none of this name, or the file is not an archive.
        """
        with importing:  # on use: most arrays are in files of their own
            from ..container.members import other_member

        source = other_member(self.container.source, name)
        return Array(source, verify=self.container.verify, nthreads=self._nthreads)

    def _attrs_advice(self) -> str:
        if self._rows is not None and self._is_open:
            return "it has no metadata section, so that it can have no attrs"
        advice = _growth_advice("change its attrs")
        return f"{advice}; copy.deepcopy(attrs) returns a copy that can be changed"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        # Names and dtypes come from the file: dtypes may be long, and have more than one line.
        dtype = " ".join(str(self.dtype).split())
        dtype = dtype if len(dtype) <= _MAX_DTYPE else f"{dtype[: _MAX_DTYPE - 3]}..."
        return (
            f"<bloscpack.Array {self._container.name or 'memory'!r} shape={self.shape} "
            f"dtype={dtype} chunks={self.chunks}{'' if self._is_open else ' (closed)'}>"
        )

    def _repr_html_(self) -> str:
        """Return a table and a picture for notebooks."""
        with importing:
            from ..display.notebook import array_card
        return array_card(self)

    def __getitem__(self, index: Any) -> Any:
        """Read a selection, as numpy would.

        The index may contain integers, slices, Ellipsis, None, and one list, integer array or
        one-dimensional mask. For a structured array, a field name or a list of names returns these
        fields of all items, read a few chunks at a time. Raises the errors of `read`.
        """
        dtype, _, is_fortran = self._described
        if not is_fortran:
            # Fast path: reading a row or an item skips the parsing that general selections need.
            if self._rows is None:
                result = _read_row(self.container, self._described, index)
            else:
                with self._rows.reading():
                    result = _read_row(self.container, self._described, index)
            if result is not None:
                return result
        names = field_names(index, dtype)
        with self._reading():
            container, described = self.container, self._described
            if names is not None:
                return gather_fields(container, described, names, nthreads=self._nthreads)
            selection = parse_selection(index, described[1])
            result = gather(container, described, selection, nthreads=self._nthreads)
        if not selection.is_scalar:
            return result
        check_text(result)
        return result[()]

    def _reading(self) -> AbstractContextManager[Any]:
        """Return a context in which no other thread changes the array through this handle."""
        return nullcontext() if self._rows is None else self._rows.reading()

    @property
    def oindex(self) -> "OuterIndexer":
        """Outer indexing, each axis independently: ``a.oindex[[2, 0], :, mask]``.

        Any number of axes may have a list, array or mask. The result contains all combinations, as
        with ``numpy.ix_``; axes indexed by an integer are dropped.
        """
        return OuterIndexer(self)

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows along the first axis, decoding each chunk once.

        An array in Fortran order is read as a whole, because each row needs part of every chunk. Of
        a chunk grid, as many rows as a chunk has are read at once. The caller may change rows in
        the loop: those of one chunk are as they were when the first of them was yielded.
        """
        if not self.shape:
            raise TypeError("iteration over an array without dimensions")
        _ = self.container  # a closed array says so at once
        return self._iter_rows()

    def _iter_rows(self) -> Iterator[Any]:
        rows = iter_rows(self._container, self._described, self._nthreads)
        for row in rows if self._rows is None else iter_changing(self):
            yield row
            _ = self.container

    @overload
    def read(
        self,
        selection: Any = (),
        *,
        out: None = None,
        on_error: OnLostChunk = "raise",
        fill_value: Any = 0,
    ) -> AnyArray: ...
    @overload
    def read(
        self, selection: Any = (), *, out: Out, on_error: OnLostChunk = "raise", fill_value: Any = 0
    ) -> Out: ...
    def read(
        self,
        selection: Any = (),
        *,
        out: Any = None,
        on_error: OnLostChunk = "raise",
        fill_value: Any = 0,
    ) -> Any:
        """Read a selection, into `out` if given.

        Parameters
        ----------
        selection : index, default everything
            As in ``a[selection]``.
        out : ndarray or writable buffer, optional
            Receives the data. An ndarray must have the shape of the selection and the dtype of the
            array, in any memory layout. Any other buffer (bytearray, mmap, array.array, a torch
            tensor in main memory) must have items of this dtype, or bytes, be contiguous and
            exactly as large as the selection in bytes; it is filled in C order.
        on_error : {"raise", "fill", "skip"}, default "raise"
            How to handle chunks that cannot be read. "raise": raise the error of the first one.
            "fill": set their items to `fill_value`. "skip": omit each index along the first axis
            of the result that needs such a chunk. "fill" and "skip" list the lost chunks in a
            `BloscpackWarning`.
        fill_value : scalar, default 0
            For "fill". Must fit the dtype. 0 means zero bytes for every dtype; structured dtypes
            accept no other value.

        Returns
        -------
        ndarray
            A new array (with no dimensions where ``a[selection]`` is a scalar), or `out`.

        Raises
        ------
        IndexError, TypeError
            The selection is out of bounds, or of a kind that is not supported.
        ValueError, KeyError
            A field does not exist: KeyError for a list of names, else ValueError, as in numpy.
        TypeError, ValueError
            `out`, `on_error` or `fill_value` does not fit.
        FormatError, CodecError
            A chunk is damaged. The contents of `out` are then undefined.
        OSError
            The file cannot be read. Raised for every value of `on_error`.

        Notes
        -----
        Each chunk that contains part of the selection is read once; other chunks are not read.
        """
        check_on_error(on_error)
        names = field_names(selection, self.dtype)
        with self._reading():
            if names is not None:
                return self._read_fields(names, out, on_error, fill_value)
            chosen = parse_selection(selection, self.shape)
            container, described = self.container, self._described
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

    def _read_fields(self, names: Names, out: Any, on_error: OnLostChunk, fill_value: Any) -> Any:
        container, described = self.container, self._described
        if on_error == "raise":
            found = gather_fields(container, described, names, out=out, nthreads=self._nthreads)
            return found if out is None else out
        if out is not None:
            raise ValueError(f"out cannot be used for fields with on_error={on_error!r}")
        whole = self.read(on_error=on_error, fill_value=fill_value)
        return whole[names].copy()  # a view would keep the other fields in memory

    def read_whole(self) -> AnyArray:
        """Return the whole array as a new, writable ndarray, in the order it was saved."""
        with self._reading():
            return gather_whole(self.container, self._described, nthreads=self._nthreads)

    def read_chunk(self, index: int) -> bytes:
        """Return the decoded bytes of chunk `index`.

        Raises
        ------
        IndexError
            `index` is not between 0 and ``nchunks - 1``.
        ChecksumMismatch, FormatError, CodecError
            The chunk is damaged; the message names the file, the chunk and its bytes.
        """
        with self._reading():
            return self.container.read_chunk(index)

    def read_chunk_into(self, index: int, buf: Any) -> int:
        """Decode chunk `index` into `buf` and return the number of bytes.

        Parameters
        ----------
        index : int
            Chunk ordinal, ``0 <= index < nchunks``.
        buf : writable buffer
            Contiguous; at least as large as the decoded chunk.
        """
        with self._reading():
            container = self.container
            view = memoryview(buf).cast("B")
            nbytes = container.chunk_nbytes(index)
            if len(view) < nbytes:
                raise ValueError(f"buf has {len(view)} bytes, chunk {index} needs {nbytes}")
            container.read_chunk_into(index, view[:nbytes])
        return nbytes

    def chunk_region(self, index: int) -> tuple[slice, ...]:
        """Return the part of the array that chunk `index` holds, as an index: a slice per axis.

        ``a[a.chunk_region(i)]`` are the items of `read_chunk`.

        Raises
        ------
        IndexError
            `index` is not between 0 and ``nchunks - 1``.
        ValueError
            Chunks are not parts of the array along its axes (`chunks` is None).
        """
        container = self.container
        if not 0 <= index < container.nchunks:
            raise IndexError(
                f"chunk index {index} is out of range: the file has {container.nchunks} chunks"
            )
        return self._chunk_grid().region(index)

    @property
    def stats(self) -> AnyArray | None:
        """Statistics of the chunks, from a file that was saved with ``stats=True``.

        A structured array with a record for each chunk, in the shape of the grid of chunks; with
        one axis if chunks are not parts of the array along its axes. Fields: ``min`` and ``max``,
        of the dtype of the array, ``nan`` (the number of NaN or NaT, which count for nothing else)
        and ``sum`` (int64, uint64 or float64; of integers modulo 2^64).

        They include changes that are not written yet. None if the file has none, if this handle is
        open for appending (mode "a"), or if a writer has appended to a file of version 3 since it
        was opened. Raises FormatError if they are damaged.
        """
        with importing:  # on use: few programs ask for them
            from .statistics import chunk_statistics

        with self._reading():
            records = chunk_statistics(self.container, self._described)
            if records is None or self.chunks is None:
                return records
            counts = self._chunk_grid().counts
        records = records[: prod(counts)].reshape(counts)
        return records.T if self.is_fortran else records

    def min(self, axis: Any = None, out: Any = None, **options: Any) -> Any:
        """Return the least item, NaN if there is any; from the statistics, if the file has them.

        Parameters
        ----------
        axis, out, **options
            As for `numpy.ndarray.min`, which is called on the whole array if any is given.

        Raises
        ------
        ValueError
            The array has no items.
        FormatError, CodecError
            The statistics are damaged, or a chunk that is read without them.

        Notes
        -----
        Statistics have a checksum, and are not compared with the items; `bloscpack.verify` does.
        Without them, all chunks are read one after the other.
        """
        return self._extreme("min", axis, out, options)

    def max(self, axis: Any = None, out: Any = None, **options: Any) -> Any:
        """Return the greatest item, NaN if there is any; all else is as for `min`."""
        return self._extreme("max", axis, out, options)

    def _extreme(self, name: str, axis: Any, out: Any, options: dict[str, Any]) -> Any:
        if axis is not None or out is not None or options:
            return getattr(self.read_whole(), name)(axis, out, **options)
        with importing:
            from .statistics import extreme

        with self._reading():
            return extreme(self.container, self._described, name)

    def chunks_where(self, **conditions: tuple[str, Any]) -> dict[int, tuple[slice, ...]]:
        """Return the chunks whose statistics fulfil all conditions, without reading a chunk.

        Parameters
        ----------
        **conditions : (str, value)
            A comparison and a value for ``min``, ``max``, ``nan`` or ``sum``. ``max=(">", 300)``
            finds the chunks whose greatest item is above 300, which are those with any such item.
            Comparisons are ``<``, ``<=``, ``>``, ``>=``, ``==`` and ``!=``, by the rules of numpy.

        Returns
        -------
        dict
            The index of each chunk, ascending, and the part of the array that it holds:
            ``a[region]`` reads it.

        Raises
        ------
        ValueError
            The file has no statistics, or its chunks are not parts of the array along its axes.
        TypeError
            A condition has another name, is not a pair, or cannot be compared with the items.

        Examples
        --------
        >>> import bloscpack as bp, numpy as np
        >>> bp.save("ramp.blp", np.arange(1000), chunks=100, stats=True)
        >>> with bp.open("ramp.blp") as a:
        ...     found = a.chunks_where(max=(">", 250), min=("<", 420))
        ...     [a[region].sum().item() for region in found.values()]
        [24950, 34950, 44950]
        """
        with importing:
            from .statistics import chunk_statistics, matching_chunks

        with self._reading():
            records, grid = chunk_statistics(self.container, self._described), self._chunk_grid()
        if records is None:
            raise ValueError(
                "the file has no statistics of its chunks; save it with stats=True to make them"
            )
        indices = matching_chunks(records, conditions).tolist() if self.size else ()
        return {index: grid.region(index) for index in indices}

    def chunk_offset(self, index: int) -> int:
        """Return the offset of chunk `index` in the file, in bytes."""
        return self.container.fetch(index).offset

    def iter_chunks(self, *, on_error: Literal["raise", "skip"] = "raise") -> Iterator[bytes]:
        """Yield the decoded bytes of each chunk in order; `chunk_region` is where they belong.

        With ``on_error="skip"`` chunks that cannot be read are omitted. A `BloscpackWarning` is
        issued at the first one and another at the end.
        """
        check_on_error(on_error, ("raise", "skip"))
        container = self.container
        if on_error == "skip":
            return iter_readable_chunks(container, self._described)
        return container.iter_chunks()

    @property
    def mode(self) -> str:
        """Mode of the handle: "r", "a" or "r+"."""
        return self._mode

    def append(self, rows: Any) -> None:
        """Append rows along the first axis, or along the last axis in Fortran order.

        Parameters
        ----------
        rows : array_like
            Rows with the shape of this array, except along the axis that grows, or one row
            without that axis. Their dtype must be that of the array, or be castable to it without
            loss. They are copied or compressed before this returns.

        Raises
        ------
        TypeError, ValueError
            The rows do not fit and were not added, or the file is not open for appending.
        LockedError
            The handle was made in another process, before a fork.
        OSError
            Writing failed. No more rows are accepted, and `close` returns to the last `flush`.

        Notes
        -----
        This handle can read the rows at once; they are in the file after `flush` or `close`. They
        are rounded if the array was written with `keepbits`.
        """
        appender = self._writable_rows()
        appender.append(rows)
        self._described = self.dtype, appender.shape, self.is_fortran
        self._is_seen = False  # the file is consulted on the next read

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set a selection to `value`, in mode "r+"; `flush` or `close` writes it to the file.

        Any index that numpy assigns to. Values are broadcast. Floats may be rounded to the type of
        the array, other values must fit it. Tuples for items with fields are converted by numpy,
        which cuts text that is too long.

        Raises
        ------
        TypeError
            The mode is not "r+", or the values cannot be cast.
        ValueError
            They do not fit the selection or the type.
        IndexError
            The index is out of bounds.
        FormatError, CodecError
            A chunk that changes in part is damaged.
        """
        self._assign(index, value)

    def _assign(self, index: Any, value: Any, *, borrow: bool = False) -> None:
        self._changes("change it").assign(index, value, borrow=borrow)
        self._is_seen = False

    def resize(self, *shape: Any) -> None:
        """Change the shape, in mode "r+": new items are 0, others are lost.

        Parameters
        ----------
        *shape : int or tuple of int
            As many lengths as there are axes. Without a chunk grid, only the first axis can change
            (the last in Fortran order).

        Raises
        ------
        TypeError, ValueError
            The mode is not "r+", or the chunks do not allow the shape.
        """
        changes = self._changes("resize it")
        changes.resize(shape[0] if len(shape) == 1 else shape)
        self._described = self.dtype, changes.shape, self.is_fortran
        self._is_seen = False

    def update_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Set some of the attrs; `flush` or `close` writes them to the file.

        Raises
        ------
        TypeError, ValueError
            They are not JSON values, the file has no metadata section, or it is not open for
            appending.
        """
        self._writable_rows().update_attrs(attrs)

    def flush(self) -> None:
        """Make all appended rows durable and visible to other readers.

        Does nothing if nothing was appended. Raises OSError if writing fails; the file is then as
        of the previous flush, at the latest after `close`.
        """
        self._writable_rows().flush()
        self._is_seen = False

    def refresh(self) -> None:
        """Make rows visible that a writer has appended, or changes, since the file was opened.

        An array that was opened at a version by its number stays at it.

        Raises
        ------
        FileChangedError
            The file was replaced or became shorter; open it again.
        OSError
            The file no longer exists.
        """
        container = self.container
        if self._rows is None and self._version == -1:
            later = refreshed(container)
            if later is not None:
                self._container = later
                self._described = describe_content(later)
                self._attrs = self._shown_attrs = None

    def close(self) -> None:
        """Write appended rows and close the file; idempotent. Shape, dtype and attrs stay."""
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
            self._rows.abandon()  # rows since the last flush may be incomplete
        self.close()

    def _set_rows(self, rows: "WritableArray", verify: Verify) -> None:
        try:
            self._container = rows.view(verify=verify)
            self._described = describe_content(self._container)
        except BaseException:
            rows.abandon()
            raise
        self._rows = rows

    def _changes(self, purpose: str) -> "ArrayChanges":
        if self._mode != "r+":
            raise TypeError(f"the file is not open for changes: {_growth_advice(purpose)}")
        changes: ArrayChanges = self._writable_rows()  # type: ignore[assignment]
        return changes

    def _writable_rows(self) -> "WritableArray":
        if not self._is_open:
            raise ValueError("I/O operation on a closed bloscpack.Array: open the file again")
        if self._rows is None:
            advice = _growth_advice("append")
            raise ValueError(f"the file is open for reading: {advice}")
        return self._rows

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location and identity of the file, not its content."""
        if self._rows is not None:
            purpose = "changes" if self._mode == "r+" else "appending"
            raise TypeError(
                f"an array open for {purpose} cannot be pickled or copied: open it by its path"
            )
        container = self.container
        place = place_of(container.source, container.front.used_nbytes)
        identity = identity_of(container)
        commit = container.front.commit
        number = -1 if commit is None else commit.sequence
        return _reopen, (place, identity, container.verify, self._nthreads, number, self._version)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        """Return Dask's token for this array, equal as long as path and content are equal."""
        return "bloscpack.Array", *token_of(self.container)


class OuterIndexer:
    """Indexer returned by `Array.oindex`: selects along each axis independently."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> AnyArray:
        """Read all combinations of the indices of each axis; raises the errors of `Array.read`."""
        array = self._array
        with array._reading():
            chosen = parse_selection(index, array.shape, outer=True)
            return gather(array.container, array._described, chosen, nthreads=array._nthreads)


def _read_row(container: Container, described: Description, index: Any) -> Any:
    """Return the row, plane or item of an array in C order that integers select.

    None if the index is another one or out of bounds, and if the row has zero bytes, is larger
    than 1 MiB, or crosses the end of a chunk or several chunks of a grid: `gather` reads it.
    """
    entries = index if type(index) is tuple else (index,)
    dtype, shape, _ = described
    if not entries or len(entries) > len(shape) or container.grid is not None:
        return None
    row = 0
    for entry, length in zip(entries, shape, strict=False):
        if type(entry) is not int and not isinstance(entry, np.integer):
            return None
        if not -length <= entry < length:
            return None
        row = row * length + int(entry) % length
    shape = shape[len(entries) :]
    nbytes = prod(shape) * dtype.itemsize
    if not 0 < nbytes <= _MAX_ROW_NBYTES:
        return None
    start, chunk = row * nbytes, 0
    last, step = container.nchunks - 1, container.chunk_size
    if last > 0:
        chunk = min(start // step, last) if step else last
        start -= chunk * step
        if chunk < last and start + nbytes > step:
            return None
    result = new_array(shape, dtype, is_fortran=False)
    container.read_bytes_into(chunk, start, stored_view(result, False))
    if shape:
        return result
    check_text(result)
    return result[()]


def _growth_advice(purpose: str) -> str:
    """Return what to do instead of changing this handle."""
    mode = "r+" if purpose in ("change it", "resize it") else "a"
    return f"open it with mode {mode!r} to {purpose}"


def check_versions(mode: str, version: int, keep: int | None) -> None:
    """Check that `mode` is one to read a version, or to keep versions; raises ValueError."""
    if version != -1 and mode != "r":
        raise ValueError(f"a version is only read (mode 'r'): mode is {mode!r}")
    if keep is not None and mode == "r":
        raise ValueError("keep is for a file that changes (mode 'r+'): mode is 'r'")


def _open(place: Place, storage_options: Mapping[str, Any] | None, version: int) -> ByteSource:
    """Return a source for a file, or for an array of an archive."""
    source = open_source(place.path, storage_options)
    if not place.inner:
        return source
    with closed_on_error(source, source.name):
        with importing:  # on use: most files have one array
            from ..container.members import open_member

        return open_member(source, place.inner, version)


def _open_rows(
    place: Place, mode: ArrayMode, nthreads: int | None, locking: bool, keep: int | None
) -> "WritableArray":
    """Open a file, or an array of an archive, for appending or changes.

    An array of an archive that is open for changes is returned as it is.
    """
    path = place.path
    with importing:  # on use: most programs only read
        from .writable import WritableArray
    if isinstance(path, WritableArray):
        return path
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"mode {mode!r} needs a path, not {type(path).__name__!r}")
    refuse_folder(path)
    if place.inner:
        with importing:
            from .archivechanges import ArchiveChanges

        archive = ArchiveChanges.open(path, nthreads=nthreads, locking=locking, keep=keep)
        with closed_on_error(archive):
            rows = archive.changes(place.inner)
        rows.owns = True
        return rows
    with open(path, "rb") as file:
        changes = mode == "r+" or is_log(file.read(MAX_HEADER_SIZE))
    with importing:
        if changes:
            from .changes import ArrayChanges
        else:
            from .rowappender import RowAppender
    if changes:
        return ArrayChanges.open(path, nthreads=nthreads, locking=locking, keep=keep)
    if keep is None:
        return RowAppender.open(path, nthreads=nthreads, locking=locking)
    raise ValueError(
        "keep is for a file that changes: mode 'a' leaves a file of format version 3 what "
        "it is; open it with mode 'r+'"
    )


def _reopen(place: Any, identity: bytes, *options: Any) -> Array:
    """Reopen a pickled array; raises as `reopened` does."""
    return reopened(Array, lambda array: identity_of(array._container), place, identity, *options)
