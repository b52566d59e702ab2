"""An array written by many workers, of any kind: each writes some rows, one makes the file.

What runs the workers does not matter: threads, processes, a cluster. They need the job, which
pickles small, and reach the folder of the file, or the store that its URL names; what they return
is small, too.
"""

import os
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from math import prod
from typing import Any, Self

import numpy as np
from xxhash import xxh3_64_hexdigest

from ..arguments import DEFAULT_BLOCK, nbytes_of
from ..container.blocks import with_small_blocks
from ..container.chunkparts import (
    PartRecord,
    is_joined,
    join_parts,
    missing_chunks,
    sorted_parts,
    write_part,
)
from ..container.writer import Chunking, Progress
from ..parallel.threads import resolve_nthreads
from ..storage.partfolder import PartFolder, new_id
from ..storage.protocol import PartStore
from ..storage.remote.remoteparts import RemoteParts
from ..storage.url import is_url, refuse_options
from ..types import AnyArray
from .arraylike import as_array
from .dtype import Dtype
from .layout import Path, plan_layout, rows_of_whole_chunks, stored_view

_MAX_TOLD = 5


class PartsJob:
    """An array that is written in parts; made by `bloscpack.parts`.

    Rows count along the first axis, along the last one of an array in Fortran order.

    Attributes
    ----------
    path : str
        The file to be, or its URL.
    id : str
        Tells the job from others for the same file.
    shape, dtype : tuple of int, numpy.dtype
        Of the whole array.
    axis : int
        The axis of the rows: 0, or the last one of an array in Fortran order.
    nrows : int
        The length of that axis; 1 of an array of no dimension.
    rows_per_chunk : int
        Parts start and stop at multiples of this, or stop at the end: the least number of rows
        that are whole chunks.
    nchunks : int
        Number of chunks.

    Notes
    -----
    It pickles, without anything of the data, but with the `storage_options` of a URL. Safe from
    many threads and processes: `write` in any of them, `commit` and `abort` in one. As a context
    manager it is aborted at the end of the block: nothing is left but a file that was committed.
    """

    def __init__(
        self,
        path: Path,
        *,
        shape: tuple[int, ...],
        dtype: Any,
        chunks: int | tuple[int, ...] | None = None,
        order: str = "C",
        codec: str = "zstd",
        clevel: int | None = None,
        shuffle: str | int | bool = "auto",
        checksum: str | None = "crc32",
        attrs: Mapping[str, Any] | None = None,
        overwrite: bool = True,
        id: str | None = None,  # noqa: A002 - a name, as in clip.id
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.shape = _checked_shape(shape)
        self.dtype: Dtype = np.dtype(dtype)
        if order not in ("C", "F"):
            raise ValueError(f"order must be 'C' or 'F', not {order!r}")
        by_last = order == "F"
        # As numpy has it: with fewer than two axes to tell apart an array is in both orders.
        self._is_fortran = by_last and 0 not in self.shape and sum(n != 1 for n in self.shape) > 1
        layout = plan_layout(
            (self.dtype, self.shape, self._is_fortran),
            chunks=chunks,
            codec=codec,
            clevel=clevel,
            shuffle=shuffle,
            checksum=checksum,
            attrs=attrs,
        )
        self.id = new_id() if id is None else id
        self._store = _store_for(path, self.id, storage_options, overwrite=overwrite)
        self.path = self._store.name
        self._header, self._section = layout.header, layout.section
        self._params = layout.params
        self._sample_extent = layout.sample_extent
        self.axis = max(len(self.shape) - 1, 0) if by_last else 0
        self.nrows = self.shape[self.axis] if self.shape else 1
        others = self.shape[: self.axis] + self.shape[self.axis + 1 :]
        self._row_nbytes = prod(others) * self.dtype.itemsize
        self._chunk_size = layout.chunking.chunk_size
        self.nchunks = layout.chunking.nchunks
        self.rows_per_chunk = rows_of_whole_chunks(
            self._chunk_size, self.nchunks, self._row_nbytes, self.nrows
        )

    @property
    def nbytes(self) -> int:
        """Decoded size of the array in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def sample_rows(self) -> tuple[int, int] | None:
        """The rows (start, stop) that decide the size of blocks; None if nothing does.

        A few in the middle of a large array; `with_blocks_for` takes them.
        """
        if self._sample_extent is None:
            return None
        start, stop = self._sample_extent
        return start // self._row_nbytes, -(-stop // self._row_nbytes)

    def with_blocks_for(self, rows: Any) -> "PartsJob":
        """Return this job with blocks of the size that `bloscpack.save` chooses, by trying.

        Parameters
        ----------
        rows : array_like
            The rows `sample_rows`; not looked at if that is None.
        """
        extent, wanted = self._sample_extent, self.sample_rows
        if extent is None or wanted is None:
            return self
        content = self._content(self._checked_rows(wanted[0], rows, wanted[1])[0])
        skipped = extent[0] - wanted[0] * self._row_nbytes
        sample = content[skipped : skipped + extent[1] - extent[0]]
        job = copy(self)
        job._params = with_small_blocks(
            self._params, sample, self._chunk_size, nthreads=resolve_nthreads(None, len(sample))
        )
        # Chosen once: they are tried from the size that C-Blosc has.
        job._sample_extent = None
        return job

    def begin(self) -> Self:
        """Make the place for parts, a hidden folder beside the file; it may be there already.

        In an object store, which has no folders, it is an empty object.

        Returns
        -------
        PartsJob
            This one.

        Raises
        ------
        LockedError
            A writer has the file open that would be replaced.
        FileExistsError
            There is a file, and it must not be replaced.
        OSError
            The folder cannot be made.
        """
        self._store.begin()
        return self

    def split(self, block: int | str = DEFAULT_BLOCK) -> list[tuple[int, int]]:
        """Return ranges (start, stop) of rows for `write`, which together are all rows.

        Parameters
        ----------
        block : int or str, default "64 MiB"
            Decoded bytes of each, at most, but one chunk at least: a number, or text with a unit.
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
            Rows `start` and on, up to another such multiple or the end: of the shape of the array,
            but for their number. Of its dtype, or one that can be cast to it without loss.
        nthreads : int, optional
            Threads that compress; one in a worker of a cluster or a pool, by default.

        Returns
        -------
        PartRecord
            For `commit`. Small, and pickles.

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
        content = self._content(array)
        nchunks = max(1, -(-len(content) // self._chunk_size)) if self._chunk_size else 1
        # An array without bytes is one chunk without bytes.
        chunking = Chunking(nchunks, self._chunk_size, 0)
        return write_part(
            self._store,
            self._stamp,
            (first, stop),
            first * self._row_nbytes // self._chunk_size if len(content) else 0,
            self._header,
            chunking.cut(content),
            self._params,
            nthreads=resolve_nthreads(nthreads, len(content)),
        )

    def missing(self, records: Iterable[PartRecord]) -> list[tuple[int, int]]:
        """Return ranges (start, stop) of rows that none of these parts has, in order.

        Raises
        ------
        ValueError
            The records are of another job; parts overlap, or are of the same rows and differ.
        """
        return self._rows_without(sorted_parts(records, self._stamp))

    def commit(
        self,
        records: Iterable[PartRecord],
        *,
        verify: bool = True,
        nthreads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Make the file, which appears whole or not at all, and remove all parts.

        Parameters and errors are those of `join`.

        Raises
        ------
        OSError
            Also if the file is there and parts cannot be removed.

        Notes
        -----
        To commit once more what was committed does nothing.
        """
        self.join(records, verify=verify, nthreads=nthreads, progress=progress)
        self._store.discard()

    def join(
        self,
        records: Iterable[PartRecord],
        *,
        verify: bool = True,
        nthreads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Make the file, which appears whole or not at all, and leave the parts to `abort`.

        For what may run any task again, and all those before it, until it is told of its end.

        Parameters
        ----------
        records : iterable of PartRecord
            What `write` has returned, in any order. Two of the same rows, as of a task that ran
            twice, are fine if they are equal.
        verify : bool, default True
            Read each part and compare its digest before it is copied.
        nthreads : int, optional
            Threads that verify.
        progress : callable, optional
            Called with (bytes copied, bytes in all), stored ones, after each part.

        Raises
        ------
        ValueError
            Rows are missing, or parts overlap, differ, or are of another job.
        FileNotFoundError
            A part is gone, or the job has ended.
        FileExistsError
            There is another file, and it must not be replaced.
        TruncatedError, ChecksumMismatch
            A part is not as it was written.
        LockedError
            A writer has the file open that would be replaced.
        OSError
            The file cannot be written.

        Notes
        -----
        After an error rows can be written again, and this be called again: all parts are still
        there.

        An object in S3 is put together there: copied are parts of 5 MiB or more, and only what is
        smaller, and up to 10 MiB at the beginning, passes through here. To verify fetches all
        parts, with up to 64 MiB in memory for each thread; without it one request for each part
        asks for its size, and S3 copies no other version of it than that one. Other stores have
        each part fetched, to verify as well, and a local temporary file of the whole written.
        """
        parts = sorted_parts(records, self._stamp)
        missing = self._rows_without(parts)
        if missing or not parts:
            told = ", ".join(f"{start} to {stop}" for start, stop in missing[:_MAX_TOLD])
            more = f" and {len(missing) - _MAX_TOLD} more" if len(missing) > _MAX_TOLD else ""
            raise ValueError(
                f"{self.path}: no part has rows {told}{more}, of {self.nrows}; write them first"
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
                progress=progress,
            )
        except (FileNotFoundError, FileExistsError):
            if not is_joined(self._store, self._header, self._section, parts):
                raise

    def target_tag(self) -> str:
        """Return what tells the file that is there now from the one of another time; "" if none."""
        return self._store.target_tag()

    def abort(self, *, others: bool = False) -> None:
        """Remove all parts; nothing of the job is left but a file that was committed.

        Parameters
        ----------
        others : bool, default False
            Those of other jobs for the same file, too: what killed programs have left. None of
            these must be running.

        Notes
        -----
        A task that is still writing fails with FileNotFoundError and leaves nothing either. A job
        made anew, with the same path and id, can do this as well.

        Behind a URL such a task removes what it wrote when it finds, afterwards, that the job has
        ended; if it is killed before, a part may stay, which calling this once more removes. It
        ends the uploads that killed programs have left unfinished, where the store tells of them.
        A bucket that keeps versions keeps those of parts.
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
        """What records are marked with: the id, and all that parts depend on but the data.

        Blocks may be of any size, and whoever commits need not know it.
        """
        params = replace(self._params, blocksize=0)
        plan = self._header.pack() + self._section + repr(params).encode()
        return f"{self.id}-{xxh3_64_hexdigest(plan)}"

    def _rows_without(self, parts: list[PartRecord]) -> list[tuple[int, int]]:
        missing = missing_chunks(parts, self.nchunks)
        if not self._row_nbytes:
            return [(0, self.nrows)] if missing else []
        size, row = self._chunk_size, self._row_nbytes
        return [
            (start * size // row, min(stop * size // row, self.nrows)) for start, stop in missing
        ]

    def _checked_rows(self, start: int, rows: Any, stop: int | None) -> tuple[AnyArray, int, int]:
        """Return rows as an array of the dtype, and their range, which `stop` tells if any may be.

        Raises
        ------
        ValueError, TypeError
            They do not fit.
        """
        array: AnyArray = np.asarray(as_array(rows))
        count = array.shape[self.axis] if array.ndim and self.shape else 1
        expected = self.shape and (*self.shape[: self.axis], count, *self.shape[self.axis + 1 :])
        if array.shape != expected:
            raise ValueError(
                f"rows have shape {array.shape}; parts of an array of shape {self.shape} are "
                f"cut along axis {self.axis} only"
            )
        if array.dtype != self.dtype and not np.can_cast(array.dtype, self.dtype, "safe"):
            raise TypeError(
                f"rows are {array.dtype}, which cannot be cast to {self.dtype} without loss; "
                "convert them with astype"
            )
        if isinstance(start, bool) or not hasattr(start, "__index__"):
            raise TypeError(f"start must be a number of rows, not {start!r}")
        first, step = int(start), self.rows_per_chunk
        end = first + count
        if stop is not None and end != stop:
            raise ValueError(f"expected rows {first} to {stop}, not {first} to {end}")
        if not 0 <= first <= end <= self.nrows or (first == end and self.nrows):
            raise ValueError(f"rows {first} to {end} are not in an array of {self.nrows} rows")
        if stop is None and (first % step or (end % step and end != self.nrows)):
            raise ValueError(
                f"rows {first} to {end} are not whole chunks: parts start and stop at multiples "
                f"of {step} rows, or stop at the end, {self.nrows}; split() gives such ranges"
            )
        if array.dtype != self.dtype:
            array = array.astype(self.dtype)
        return array, first, end

    def _content(self, array: AnyArray) -> memoryview:
        """Return the stored bytes of rows."""
        if not array.nbytes:
            return memoryview(b"")
        if self.axis:
            return stored_view(np.asfortranarray(array), True)
        return stored_view(np.ascontiguousarray(array), False)


def parts(
    path: Path,
    *,
    shape: tuple[int, ...],
    dtype: Any,
    chunks: int | tuple[int, ...] | None = None,
    order: str = "C",
    codec: str = "zstd",
    clevel: int | None = None,
    shuffle: str | int | bool = "auto",
    checksum: str | None = "crc32",
    attrs: Mapping[str, Any] | None = None,
    sample: Any = None,
    overwrite: bool = True,
    id: str | None = None,  # noqa: A002
    storage_options: Mapping[str, Any] | None = None,
) -> PartsJob:
    """Begin an array that many workers write in parts, each some rows of it.

    Parameters
    ----------
    path : str or PathLike
        The file to be, or its URL (extra ``remote``). All workers must reach its folder by this
        path. A file that is there stays until the new one is committed.
    shape : tuple of int
        Of the whole array.
    dtype : data-type
        Of the items; any but object.
    order : {"C", "F"}, default "C"
        "F" stores it in Fortran order; parts are then cut along the last axis.
    chunks, codec, clevel, shuffle, checksum, attrs
        As for `save`.
    sample : array_like, optional
        The whole array, or anything that gives rows of it when it is sliced (an `Array`, a memory
        map, an array of h5py, zarr or dask): a few rows in its middle are read, and the size of
        Blosc blocks chosen by them as `save` does. Without it parts of chunks of an array of at
        least 4 MiB are slower to read.
    overwrite : bool, default True
        False: refuse to replace a file.
    id : str, optional
        Tells the job from others for the same file: letters, digits, "_" and "-". Whoever begins
        a job with the same arguments has the same job. Random by default.
    storage_options : mapping, optional
        For the file system of fsspec that the URL is of. They travel with the job when it is
        pickled, keys included.

    Returns
    -------
    PartsJob
        A context manager. `split` gives ranges of rows, `write` takes one, `commit` makes the file.

    Raises
    ------
    ObjectNumpyArrayRejection
        `dtype` holds Python objects.
    ValueError, TypeError
        A parameter is out of its range.
    FileExistsError
        There is a file, and `overwrite` is False.
    LockedError
        A writer has the file open that would be replaced.
    UnsupportedError
        Nothing is written to such URLs: web servers, chains of file systems.
    OSError
        No parts can be written there.

    Notes
    -----
    Parts of an object are objects below a hidden URL beside it. Those in S3 are copied on its side
    when they are joined; of other stores they are fetched and written again.

    The file is, byte for byte, the one that `save` writes of the whole array with the same options,
    whatever the parts (with `sample`, if the array has 4 MiB). bloscpack 0.16 reads it.

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
        chunks=chunks,
        order=order,
        codec=codec,
        clevel=clevel,
        shuffle=shuffle,
        checksum=checksum,
        attrs=attrs,
        overwrite=overwrite,
        id=id,
        storage_options=storage_options,
    )
    wanted = job.sample_rows
    if sample is not None and wanted is not None:
        rows = (slice(None),) * job.axis + (slice(*wanted),)
        job = job.with_blocks_for(sample[rows])
    return job.begin()


# How many runs of missing rows a message tells.


def _store_for(
    path: Path, id_: str, storage_options: Mapping[str, Any] | None, *, overwrite: bool
) -> PartStore:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a str or PathLike, not {type(path).__name__!r}")
    if isinstance(path, str) and is_url(path):
        return RemoteParts(path, id_, storage_options, overwrite=overwrite)
    refuse_options(path, storage_options)
    return PartFolder(path, id_, overwrite=overwrite)


def _checked_shape(shape: Any) -> tuple[int, ...]:
    lengths = tuple(shape)
    if not all(hasattr(n, "__index__") and not isinstance(n, bool) and n >= 0 for n in lengths):
        raise ValueError(f"shape must be a tuple of lengths, not {shape!r}")
    return tuple(map(int, lengths))
