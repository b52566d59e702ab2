"""Parallel writing: many workers write some rows each, then one call joins them into the file.

Workers may be threads, processes, or nodes of a cluster. Each needs the job, whose pickle is small,
and access to the folder (or the object store) of the file. The records they return are small, too.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from math import prod
from typing import Any, Self, Unpack

import numpy as np
from xxhash import xxh3_64_hexdigest

from ..container.blocks import with_small_blocks
from ..container.chunkparts import (
    PartRecord,
    is_joined,
    join_parts,
    missing_chunks,
    sorted_parts,
    write_part,
)
from ..container.writer import write_container
from ..format.chunkgrid import ChunkGrid
from ..keywords import DEFAULT_BLOCK, explain_keywords, nbytes_of
from ..parallel.progressbar import as_progress
from ..parallel.threads import resolve_nthreads
from ..storage.partfolder import PartFolder, new_id
from ..storage.protocol import ByteSink, PartStore
from ..storage.remote.remoteparts import RemoteParts
from ..storage.url import is_url, refuse_options
from ..types import AnyArray, Path, ProgressOption
from .arraylike import as_array
from .attrs import check_dims
from .chunkpieces import rows_of_whole_chunks
from .dtype import Dtype, cast_rows
from .layout import SAVE_DEFAULTS, SaveOptions, Settings, checked_shape, plan_layout

# Ranges of missing rows listed in a message.
_MAX_LISTED = 5


class PartsJob:
    """Array that is written in parts; returned by `bloscpack.parts`.

    Rows are counted along the first axis, or along the last axis in Fortran order.

    Attributes
    ----------
    path : str
        Path or URL of the file that the parts will form.
    id : str
        Distinguishes the job from others for the same file.
    shape, dtype : tuple of int, numpy.dtype
        Shape and dtype of the whole array.
    axis : int
        Axis of the rows: 0, or the last axis in Fortran order.
    nrows : int
        Length of that axis; 1 for an array without dimensions.
    rows_per_chunk : int
        Smallest number of rows that fill whole chunks. Parts start at a multiple of it, and stop
        at a multiple or at the last row.
    nchunks : int
        Number of chunks.

    Notes
    -----
    A pickled job contains no data, but it does contain the `storage_options` of a URL. `write` may
    be called from many threads and processes at once; `commit` and `abort` from one. As a context
    manager the job is aborted at the end of the block: only a committed file remains.
    """

    @explain_keywords(SAVE_DEFAULTS)
    def __init__(
        self,
        path: Path,
        *,
        shape: tuple[int, ...],
        dtype: Any,
        order: str = "C",
        overwrite: bool = True,
        id: str | None = None,  # noqa: A002 - a name, as in clip.id
        storage_options: Mapping[str, Any] | None = None,
        **options: Unpack[SaveOptions],
    ) -> None:
        self.shape = checked_shape(shape)
        self.dtype: Dtype = np.dtype(dtype)
        if order not in ("C", "F"):
            raise ValueError(f"order must be 'C' or 'F', not {order!r}")
        by_last = order == "F"
        # As in numpy, an array with fewer than two axes longer than 1 is in both orders.
        self._is_fortran = by_last and 0 not in self.shape and sum(n != 1 for n in self.shape) > 1
        layout = plan_layout((self.dtype, self.shape, self._is_fortran), Settings(**options))
        grid = layout.division if isinstance(layout.division, ChunkGrid) else None
        if grid is not None and not self._is_fortran:
            by_last = False  # rows of a grid are counted along the first axis as stored
        self.id = new_id() if id is None else id
        self._store = _store_for(path, self.id, storage_options, overwrite=overwrite)
        self.path = self._store.name
        self._header, self._section = layout.header, layout.section
        self._params = layout.params
        self._layout = layout
        self._is_sampled = False
        self.axis = max(len(self.shape) - 1, 0) if by_last else 0
        self.nrows: int = self.shape[self.axis] if self.shape else 1
        others = self.shape[: self.axis] + self.shape[self.axis + 1 :]
        self._row_nbytes: int = prod(others) * self.dtype.itemsize
        self.nchunks = layout.division.nchunks
        self._grid = grid
        if grid is None:
            self.rows_per_chunk = rows_of_whole_chunks(
                layout.chunk_size, self.nchunks, self._row_nbytes, self.nrows
            )
        else:
            self.rows_per_chunk = grid.chunks[0]

    @property
    def nbytes(self) -> int:
        """Decoded size of the array in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def sample_rows(self) -> tuple[int, int] | None:
        """Rows (start, stop) that `with_blocks_for` needs to choose the block size.

        A few rows in the middle; None if the array is small or the size has been chosen.
        """
        return None if self._is_sampled else self._layout.sample_rows(self._row_nbytes)

    def with_blocks_for(self, rows: Any) -> "PartsJob":
        """Return this job with the block size that `bloscpack.save` would choose for these rows.

        Parameters
        ----------
        rows : array_like
            The rows `sample_rows`; ignored if that is None.
        """
        wanted = self.sample_rows
        if wanted is None:
            return self
        stored = self._stored(self._checked_rows(wanted[0], rows, wanted[1])[0])
        sample = self._layout.sample(stored, wanted[0])
        if sample is None:
            return self
        job = copy(self)
        nthreads = resolve_nthreads(None, len(sample))
        job._params = with_small_blocks(
            self._params, sample, self._layout.chunk_size, nthreads=nthreads
        )
        # Choose only once: the trial starts from C-Blosc's own block size.
        job._is_sampled = True
        return job

    def begin(self) -> Self:
        """Create the hidden folder for parts beside the file, unless it exists.

        In an object store, which has no folders, it is an empty object.

        Returns
        -------
        PartsJob
            This job.

        Raises
        ------
        LockedError
            A writer has the file open that would be replaced.
        FileExistsError
            The file exists, and `overwrite` is False.
        OSError
            The folder cannot be created.
        """
        self._store.begin()
        return self

    def split(self, block: int | str = DEFAULT_BLOCK) -> list[tuple[int, int]]:
        """Divide all rows into ranges (start, stop) for `write`.

        Parameters
        ----------
        block : int or str, default "64 MiB"
            Largest decoded size of a range, in bytes or as text with a unit. A range has at least
            one chunk.
        """
        step = self.rows_per_chunk
        if self._row_nbytes:
            step *= max(1, nbytes_of(block) // (step * self._row_nbytes))
        if not self.nrows:
            return [(0, 0)]
        return [(start, min(start + step, self.nrows)) for start in range(0, self.nrows, step)]

    def write(self, start: int, rows: Any, *, nthreads: int | None = None) -> PartRecord:
        """Compress rows into a part of the file.

        Parameters
        ----------
        start : int
            The first row, a multiple of `rows_per_chunk`.
        rows : array_like
            Rows from `start` up to another such multiple or the end. Except along the row axis,
            their shape must be that of the array. Their dtype must be that of the array, or be
            castable to it without loss.
        nthreads : int, optional
            Number of compressing threads. Default: 1 in a worker of a cluster or a pool, else the
            number of processors, at most 8.

        Returns
        -------
        PartRecord
            Argument for `commit`; small and picklable.

        Raises
        ------
        ValueError, TypeError
            The rows do not fit the array, or are not whole chunks.
        FileNotFoundError
            The job has ended, or was not begun.
        OSError
            The part cannot be written.
        """
        array, first, stop = self._checked_rows(start, rows, None)
        return write_part(
            self._store,
            self._stamp,
            (first, stop),
            self._chunk_of(first) if array.nbytes else 0,
            self._header,
            self._layout.cut(self._stored(array)),
            self._params,
            nthreads=resolve_nthreads(nthreads, array.nbytes),
        )

    def missing(self, records: Iterable[PartRecord]) -> list[tuple[int, int]]:
        """Return the ranges (start, stop) of rows that are in none of these parts, in order.

        Raises
        ------
        ValueError
            Records belong to another job, parts overlap, or parts of the same rows differ.
        """
        return self._rows_without(sorted_parts(records, self._stamp))

    @explain_keywords()
    def commit(
        self,
        records: Iterable[PartRecord],
        *,
        verify: bool = True,
        nthreads: int | None = None,
        progress: ProgressOption = None,
    ) -> None:
        """Join the parts into the file, which appears whole or not at all, and remove them.

        Parameters and errors are those of `join`.

        Raises
        ------
        OSError
            Also if the file was made but parts cannot be removed.

        Notes
        -----
        Committing the same records again does nothing.
        """
        self.join(records, verify=verify, nthreads=nthreads, progress=as_progress(progress))
        self._store.discard()

    @explain_keywords()
    def join(
        self,
        records: Iterable[PartRecord],
        *,
        verify: bool = True,
        nthreads: int | None = None,
        progress: ProgressOption = None,
    ) -> None:
        """Join the parts into the file, which appears whole or not at all; `abort` removes them.

        For schedulers that may run any task and its predecessors again: unlike after `commit`, the
        parts still exist.

        Parameters
        ----------
        records : iterable of PartRecord
            Records returned by `write`, in any order. Two records of the same rows, from a task
            that ran twice, must be equal.
        verify : bool, default True
            Read each part and compare its digest before copying it.
        nthreads : int, optional
            Number of verifying threads.
        progress : callable, optional
            Called after each part with (stored bytes copied, stored bytes in total).

        Raises
        ------
        ValueError
            Rows are missing, or parts overlap, differ, or belong to another job.
        FileNotFoundError
            A part is missing, or the job has ended.
        FileExistsError
            Another file exists, and `overwrite` is False.
        TruncatedError, ChecksumMismatch
            A part is damaged.
        LockedError
            A writer has the file open that would be replaced.
        OSError
            The file cannot be written.

        Notes
        -----
        An error removes no parts, so rows can be written again and this method called again.

        S3 joins the object on its side: it copies parts of 5 MiB or more. Only smaller parts, and
        up to 10 MiB at the beginning, pass through this process. Verifying fetches all parts, with
        up to 64 MiB in memory per thread. Without it, one request per part gets its size, and S3
        copies exactly that version of the part. For other stores every part is fetched, also to
        verify it, and the whole file is first written to a local temporary file.
        """
        parts = sorted_parts(records, self._stamp)
        missing = self._rows_without(parts)
        if missing or not parts:
            listed = ", ".join(f"{start} to {stop}" for start, stop in missing[:_MAX_LISTED])
            more = f" and {len(missing) - _MAX_LISTED} more" if len(missing) > _MAX_LISTED else ""
            raise ValueError(
                f"{self.path}: no part has rows {listed}{more}, of {self.nrows}; write them first"
            )
        threads = resolve_nthreads(nthreads, sum(part.nbytes for part in parts))
        try:
            join_parts(
                self._store,
                self._header,
                self._section,
                parts,
                verify=verify,
                nthreads=threads,
                progress=as_progress(progress),
            )
        except (FileNotFoundError, FileExistsError):
            # A scheduler may run this again after it was done.
            if not is_joined(self._store, self._header, self._section, parts):
                raise

    def target_tag(self) -> str:
        """Return a tag of the file's current version; "" if it does not exist."""
        return self._store.target_tag()

    @explain_keywords()
    def abort(self, *, others: bool = False) -> None:
        """Remove all parts of the job; a committed file remains.

        Parameters
        ----------
        others : bool, default False
            Also remove parts of other jobs for the same file, left by programs that were killed.
            None of these jobs may be running.

        Notes
        -----
        A task that is still writing fails with FileNotFoundError and leaves no part. A new job
        with the same path and id can abort this one.

        Behind a URL, such a task checks afterwards whether the job has ended, and then removes its
        part. If it is killed before that, the part stays until `abort` is called again. `abort`
        also ends unfinished uploads of killed programs, if the store lists them. A bucket with
        versioning keeps old versions of the parts.
        """
        self._store.discard(others=others)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.abort()

    def __repr__(self) -> str:
        return (
            f"<bloscpack.PartsJob {self.path!r} shape={self.shape} dtype={self.dtype} "
            f"rows_per_chunk={self.rows_per_chunk} id={self.id!r}>"
        )

    @property
    def _stamp(self) -> str:
        """Stamp of this job's records: the id and a digest of all options that affect parts.

        The block size is left out: parts with different block sizes can be joined.
        """
        params = replace(self._params, blocksize=0)
        plan = self._header.pack() + self._section + repr(params).encode()
        return f"{self.id}-{xxh3_64_hexdigest(plan)}"

    def _rows_without(self, parts: list[PartRecord]) -> list[tuple[int, int]]:
        missing = missing_chunks(parts, self.nchunks)
        if not self._row_nbytes:
            return [(0, self.nrows)] if missing else []
        return [(self._row_of(start), self._row_of(stop)) for start, stop in missing]

    def _chunk_of(self, row: int) -> int:
        """Return the chunk that begins with a row."""
        if self._grid is not None:
            return row // self._grid.chunks[0] * self._grid.row_nchunks
        return row * self._row_nbytes // self._layout.chunk_size

    def _row_of(self, chunk: int) -> int:
        """Return the row that a chunk begins with."""
        if self._grid is not None:
            row = chunk // self._grid.row_nchunks * self._grid.chunks[0]
        else:
            row = chunk * self._layout.chunk_size // self._row_nbytes
        return min(row, self.nrows)

    def _checked_rows(self, start: int, rows: Any, stop: int | None) -> tuple[AnyArray, int, int]:
        """Return (rows as an array of the job's dtype, first row, stop).

        `stop` is the expected end of the range; None accepts any range of whole chunks.
        """
        array: AnyArray = np.asarray(as_array(rows))
        count = array.shape[self.axis] if self.shape and array.ndim > self.axis else 1
        expected = self.shape and (*self.shape[: self.axis], count, *self.shape[self.axis + 1 :])
        if array.shape != expected:
            raise ValueError(
                f"rows have shape {array.shape}; parts of an array of shape {self.shape} are "
                f"cut along axis {self.axis} only"
            )
        if array.dtype != self.dtype:
            array = cast_rows(array, self.dtype, is_array=hasattr(rows, "dtype"))
        if isinstance(start, bool) or not hasattr(start, "__index__"):
            raise TypeError(f"start must be an integer row number, not {start!r}")
        first, step = int(start), self.rows_per_chunk
        end = first + count
        if stop is not None and end != stop:
            raise ValueError(f"expected rows {first} to {stop}, not {first} to {end}")
        if not 0 <= first <= end <= self.nrows or (first == end and self.nrows):
            raise ValueError(f"rows {first} to {end} are outside the array of {self.nrows} rows")
        if stop is None and (first % step or (end % step and end != self.nrows)):
            raise ValueError(
                f"rows {first} to {end} are not whole chunks: parts start and stop at multiples "
                f"of {step} rows, or stop at the end, {self.nrows}; split() returns such ranges"
            )
        return array, first, end

    def _write_whole(
        self,
        sink: ByteSink,
        read: Callable[[tuple[slice, ...]], Any],
        add: Callable[[int], None],
        *,
        part_nbytes: int,
        nthreads: int,
    ) -> None:
        """Write the whole array to an empty sink, which is not of this job, part by part.

        `read` returns the items of a part, and `add` takes the bytes of each.
        """

        def chunks() -> Iterator[memoryview]:
            for start, stop in self.split(part_nbytes):
                block = np.asarray(read(self._place(start, stop)))
                yield from self._layout.cut(self._stored(block))
                add(block.nbytes)

        write_container(
            sink,
            self._header,
            self._section,
            chunks(),
            self._sampled(read)._params,
            nthreads=nthreads,
            nbytes=self.nbytes,
            trailer=True,
        )

    def _sampled(self, read: Callable[[tuple[slice, ...]], Any]) -> "PartsJob":
        wanted = self.sample_rows
        return self if wanted is None else self.with_blocks_for(read(self._place(*wanted)))

    def _place(self, start: int, stop: int) -> tuple[slice, ...]:
        """Return the index of rows `start` to `stop` of the array."""
        return (slice(None),) * self.axis + (slice(start, stop),) if self.shape else ()

    def _stored(self, array: AnyArray) -> AnyArray:
        """Return rows with their axes as they are stored."""
        return array.T if self.axis else array


@explain_keywords(SAVE_DEFAULTS)
def parts(
    path: Path,
    *,
    shape: tuple[int, ...],
    dtype: Any,
    order: str = "C",
    sample: Any = None,
    overwrite: bool = True,
    id: str | None = None,  # noqa: A002
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[SaveOptions],
) -> PartsJob:
    """Begin an array that many workers write in parts of some rows each.

    Parameters
    ----------
    path : str or PathLike
        Path or URL (extra ``remote``) of the file to make. All workers must be able to reach its
        folder by this path. An existing file stays until the new one is committed.
    shape : tuple of int
        Shape of the whole array.
    dtype : data-type
        Dtype of the items; any except object.
    order : {"C", "F"}, default "C"
        "F" stores it in Fortran order; parts are then cut along the last axis.
    chunks, access, codec, clevel, shuffle, checksum, attrs, keepbits, stats
        As for `save`.
    sample : array_like, optional
        The whole array, or an object whose slices are rows of it (an `Array`, a memory map, an
        array of h5py, zarr or dask). A few rows in its middle are read to choose the size of Blosc
        blocks, as `save` does. Without a sample, reading parts of chunks is slower for arrays of
        at least 4 MiB.
    overwrite : bool, default True
        False: refuse to replace an existing file.
    id : str, optional
        Distinguishes the job from others for the same file: letters, digits, "_" and "-". The
        same arguments and id give the same job, also in another process. Random by default.
    storage_options : mapping, optional
        Arguments for the fsspec file system of the URL. A pickled job contains them, including
        access keys.

    Returns
    -------
    PartsJob
        A context manager. `split` returns ranges of rows, `write` writes the rows of one, `commit`
        makes the file.

    Raises
    ------
    ObjectNumpyArrayRejection
        `dtype` contains Python objects.
    ValueError, TypeError
        A parameter is out of range.
    FileExistsError
        The file exists, and `overwrite` is False.
    LockedError
        A writer has the file open that would be replaced.
    UnsupportedError
        The URL cannot be written to: web servers, chains of file systems.
    OSError
        Parts cannot be written there.

    Notes
    -----
    Parts of an object are objects under a hidden URL beside it. S3 joins them by copying on its
    side; other stores need them to be fetched and written again.

    The file is byte for byte the one that `save` writes for the whole array with the same options,
    for any division into parts (arrays of 4 MiB or more need `sample`). bloscpack 0.16 reads it.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> with bp.parts("squares.blp", shape=(1000,), dtype="i8", chunks=100) as job:
    ...     ranges = job.split(1600)
    ...     records = [job.write(a, np.arange(a, b) ** 2) for a, b in ranges]  # in any process
    ...     job.commit(records)
    >>> len(ranges)
    5
    >>> bp.load("squares.blp")[-2:]
    array([996004, 998001])
    """
    job = PartsJob(
        path,
        shape=shape,
        dtype=dtype,
        order=order,
        overwrite=overwrite,
        id=id,
        storage_options=storage_options,
        **options,
    )
    check_dims(options.get("attrs"), job.shape)
    if sample is not None:
        job = job._sampled(sample.__getitem__)
    return job.begin()


def _store_for(
    path: Path, id_: str, storage_options: Mapping[str, Any] | None, *, overwrite: bool
) -> PartStore:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a str or PathLike, not {type(path).__name__!r}")
    if isinstance(path, str) and is_url(path):
        return RemoteParts(path, id_, storage_options, overwrite=overwrite)
    refuse_options(path, storage_options)
    return PartFolder(path, id_, overwrite=overwrite)
