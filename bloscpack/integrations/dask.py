"""Arrays in files as Dask arrays, and Dask arrays into files; clips by the tasks of a cluster.

Reading and writing are by blocks of whole chunks along the first axis, so that no chunk is decoded
or compressed twice. What a Dask array is written to is made of parts (`bloscpack.parts`): the file
appears whole or not at all, and has the same bytes whatever the workers. Everything runs on the
scheduler that Dask uses at the time: threads, processes, a cluster. This module alone imports Dask.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from ..arguments import DEFAULT_BLOCK, nbytes_of, text_list
from ..array.array import Array
from ..array.layout import Path, rows_of_whole_chunks
from ..array.parts import PartsJob
from ..container.chunkparts import PartRecord
from ..filetypes.open import open, open_frames  # noqa: A004
from ..frames.protocol import Clip, FrameSource
from ..types import AnyArray

try:
    import dask
    import dask.array as da
    from dask.delayed import Delayed
except ImportError as err:
    raise ImportError(
        "bloscpack.integrations.dask needs Dask with its arrays: pip install 'bloscpack[dask]'",
        name=err.name,
    ) from err

__all__ = ["from_bloscpack", "map_clips", "save"]

# A job with a place for parts, and the tag of the file that was there before; None: whatever is
# there, no task runs again once its parts are removed.
_Begun = tuple[PartsJob, str | None]

# Clips of a task of `map_clips`: opening a source and running a task cost about a millisecond each.
_MAX_BATCH = 64


def from_bloscpack(
    path: Any,
    block: int | str = DEFAULT_BLOCK,
    *,
    verify: Any = True,
    nthreads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> da.Array:
    """Return an array in a file as a Dask array.

    Parameters
    ----------
    path : str, PathLike, bytes-like or Array
        The file, a URL of it, or one that is open.
    block : int or str, default "64 MiB"
        Decoded bytes of a block, at most: a number, or text with a unit. Blocks are whole chunks
        along the first axis (the last one of an array in Fortran order); only where a single chunk,
        or the least number of whole rows that are whole chunks, is larger, blocks are of that size,
        or of rows that share chunks.
    verify, nthreads, storage_options
        As for `bloscpack.open`. In a task, one thread reads by default.

    Returns
    -------
    dask.array.Array
        Its name is a token of what is in the file: equal for the same file, another one once it
        has changed.

    Raises
    ------
    FormatError, UnsupportedError, OSError
        As for `bloscpack.open`.
    TypeError
        The array cannot be sent to workers: it was opened from a file object, or for appending.

    Notes
    -----
    The file is opened once here and once in each process of workers, which must reach it by the
    same path. A file that was changed meanwhile raises `FileChangedError` there.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> from bloscpack.integrations.dask import from_bloscpack
    >>> bp.save("ramp.blp", np.arange(600_000).reshape(600, 1000), chunks=10)
    >>> x = from_bloscpack("ramp.blp", block="1 MiB")
    >>> x.chunks[0]
    (130, 130, 130, 130, 80)
    >>> int(x[::100].sum().compute())
    1502997000
    """
    array = path
    if not isinstance(path, Array):
        array = open(path, verify=verify, nthreads=nthreads, storage_options=storage_options)
    array.__reduce__()  # what cannot travel is refused here, and not in the middle of the work
    return da.from_array(
        array,
        chunks=_blocks_of(array, nbytes_of(block)),
        lock=False,
        asarray=True,
        meta=np.empty((0,) * array.ndim, array.dtype),
    )


def _blocks_of(array: Array, block_nbytes: int) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of blocks along each axis."""
    shape = array.shape
    if not shape:
        return ()
    axis = array.ndim - 1 if array.is_fortran else 0
    nrows = shape[axis]
    row_nbytes = array.nbytes // nrows if nrows else 0
    step = rows_of_whole_chunks(array.header.chunk_size, array.nchunks, row_nbytes, nrows)
    wanted = max(1, block_nbytes // row_nbytes) if row_nbytes else step
    if step <= wanted:
        step = wanted // step * step
    elif step * row_nbytes > array.header.chunk_size:
        step = wanted
    lengths = _cut(nrows, step)
    return tuple(lengths if each == axis else (shape[each],) for each in range(array.ndim))


def _cut(nrows: int, step: int) -> tuple[int, ...]:
    whole, rest = divmod(nrows, step)
    return (step,) * whole + ((rest,) if rest or not whole else ())


def save(
    array: Any,
    path: Path,
    *,
    compute: bool = True,
    block: int | str = DEFAULT_BLOCK,
    chunks: int | tuple[int, ...] | None = None,
    order: str = "C",
    codec: str = "zstd",
    clevel: int | None = None,
    shuffle: str | int | bool = "auto",
    checksum: str | None = "crc32",
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = True,
    id: str | None = None,  # noqa: A002
    verify: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Write a Dask array to a file or an object, each block by the worker that has it.

    Parameters
    ----------
    array : dask.array.Array
        Of known shape; any dtype but object.
    path : str or PathLike
        The file, in a folder that all workers reach by this path, or a URL of an object. What is
        there is replaced once the new one is complete, a file once that is synced as well.
    compute : bool, default True
        False: return a `Delayed` that writes the file when it is computed, and gives the path.
    block : int or str, default "64 MiB"
        Decoded bytes of a block where blocks have to be made anew: an array that is split along
        other axes than the first (the last one, in Fortran order). One whose blocks are only not
        whole chunks has their borders moved, by less than a chunk.
    chunks, codec, clevel, shuffle, checksum, attrs
        As for `bloscpack.save`.
    order, overwrite, id, storage_options
        As for `bloscpack.parts`.
    verify : bool, default True
        Read each part once more, and compare its digest, before it is joined. One worker does, so
        that all of the file passes through it where parts are behind a URL.

    Returns
    -------
    str or Delayed
        The path, as it was given.

    Raises
    ------
    ValueError
        The shape is not known; a parameter is out of its range.
    Exception
        Whatever a task raises; no file is made, and all parts are removed.

    Notes
    -----
    The file is byte for byte the one that `bloscpack.save` writes of the whole array. Some rows in
    the middle are computed first, twice in all, as the size of Blosc blocks is chosen by them.

    A worker holds the blocks that it computes, and compresses them one chunk at a time. A worker
    that is lost has its blocks done again by others. The last task joins the parts, without
    decoding them; those in S3 are copied there, and not fetched but to be verified, or if they are
    small.

    After an error of a `Delayed`, or when this program is killed, parts are left in a hidden folder
    beside the file, or below such a URL: ``bloscpack.PartsJob.abort``, with ``others=True`` or for
    the same `id`, removes them.

    `storage_options` go to the workers with the tasks, keys included.

    Examples
    --------
    >>> import bloscpack as bp, dask.array as da
    >>> from bloscpack.integrations.dask import save
    >>> save(da.arange(1000, chunks=300), "ramp.blp")
    'ramp.blp'
    >>> bp.load("ramp.blp")[-3:]
    array([997, 998, 999])
    """
    array = da.asanyarray(array)
    if any(length != length for length in array.shape):  # NaN
        raise ValueError(
            f"the shape {array.shape} is not known: call compute_chunk_sizes() of the array first"
        )
    job = PartsJob(
        path,
        shape=array.shape,
        dtype=array.dtype,
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
    lengths = _part_lengths(array, job, nbytes_of(block))
    begun = dask.delayed(_begin, pure=False)(job, _sample(array, job))
    if array.chunks != lengths:
        array = array.rechunk(lengths)
    if not compute:
        return dask.delayed(_end, pure=False)(job, _joined(array, job, begun, verify))
    try:
        # First by itself: nothing else is in memory until blocks can be written.
        ((ready, _),) = dask.compute(begun)
        (name,) = dask.compute(_joined(array, job, (ready, None), verify))
    except BaseException as err:
        _clean_up(job, err)
        raise
    # The file is there and this program knows it: no task will run again.
    dask.compute(dask.delayed(_end, pure=False)(job))
    return name


def _sample(array: da.Array, job: PartsJob) -> da.Array | None:
    wanted = job.sample_rows
    return None if wanted is None else array[(slice(None),) * job.axis + (slice(*wanted),)]


def _part_lengths(array: da.Array, job: PartsJob, block_nbytes: int) -> tuple[Any, ...]:
    """Return the lengths of blocks along each axis that parts can be made of."""
    if not array.ndim:
        return ()
    given, step = array.chunks[job.axis], job.rows_per_chunk
    if prod(array.numblocks) == len(given):
        borders = sorted({-(-end // step) * step for end in accumulate(given)} - {0})
        borders = [*(border for border in borders if border < job.nrows), job.nrows]
        lengths = tuple(
            stop - start for start, stop in zip([0, *borders[:-1]], borders, strict=True)
        )
    else:
        row_nbytes = job.nbytes // job.nrows if job.nrows else 0
        wanted = block_nbytes // row_nbytes // step * step if row_nbytes else step
        lengths = _cut(job.nrows, max(wanted, step))
    return tuple(
        lengths if each == job.axis else (array.shape[each],) for each in range(array.ndim)
    )


def _joined(array: da.Array, job: PartsJob, begun: _Begun | Delayed, verify: bool) -> Delayed:
    """Return the task that makes the file of `array`, whose blocks are parts of the job.

    `begun` is made before any part is written. To join them takes only the records, so that there
    is one task that begins.
    """
    records = da.map_blocks(
        _write,
        array,
        begun=begun,
        dtype=object,
        chunks=tuple((1,) * count for count in array.numblocks),
        meta=np.empty((0,) * array.ndim, object),
        name=f"bloscpack-write-{dask.base.tokenize(array, begun)}",
    )
    return dask.delayed(_join, pure=False)(job, records, verify)


def _begin(job: PartsJob, sample: AnyArray | None) -> _Begun:
    tag = job.target_tag()
    return (job if sample is None else job.with_blocks_for(sample)).begin(), tag


def _write(rows: AnyArray, begun: _Begun, block_info: Any = None) -> AnyArray:
    """Write a block; the record is what stands in its place."""
    job, tag = begun
    places = block_info[0]["array-location"]
    start = places[job.axis][0] if places else 0
    record = np.empty((1,) * rows.ndim, object)
    try:
        record[...] = job.write(start, rows)
    except FileNotFoundError:
        # The parts are gone. If the file is there, a worker was lost when it removed them, and
        # records with it: all is done again. Else the job was aborted, and this task is late.
        if tag is None or tag == job.target_tag():
            raise
        record[...] = job.begin().write(start, rows)
    return record


def _join(job: PartsJob, records: AnyArray, verify: bool = True) -> str:
    found: list[PartRecord] = np.asarray(records, object).ravel().tolist()
    job.join(found, verify=verify)
    return job.path


def _end(job: PartsJob, name: str = "") -> str:
    """Remove the parts of a job; `name` is what is passed on."""
    job.abort()
    return name


def _clean_up(job: PartsJob, err: BaseException) -> None:
    """Remove the parts, where the workers are: this process may not reach them."""
    try:
        dask.compute(dask.delayed(_end, pure=False)(job))
    except Exception as second:
        err.add_note(f"parts of {job.path} with the id {job.id!r} may be left: {second}")


def map_clips(
    source: Any,
    function: Callable[[Clip], Any],
    *,
    ids: Iterable[str] | None = None,
    batch: int | None = None,
    compute: bool = True,
) -> Any:
    """Call a function for every clip of a source, in tasks of Dask.

    Parameters
    ----------
    source : path, sequence of paths or source of clips
        What `bloscpack.frames.open` opens, or gives. It travels to the workers as its place: these
        must reach it by the same path.
    function : callable
        Takes a clip, of which nothing is decoded yet, and returns what is to be collected: keep it
        small. It and its results must pickle where workers are processes.
    ids : iterable of str, optional
        Which clips, in this order; all by default.
    batch : int, optional
        Clips per task; by default as many as make at least 64 tasks, at most 64.
    compute : bool, default True
        False: return a `Delayed`, which gives the list when it is computed.

    Returns
    -------
    list or Delayed
        The results, in the order of the clips.

    Raises
    ------
    NotFoundError
        There is no clip of an id.
    ValueError
        `batch` is less than 1.
    Exception
        Whatever the function raises.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> with bp.frames.create("clips.blp", overwrite=True) as store:
    ...     for n in range(3):
    ...         store.append(f"clip{n}", np.full((5, 8, 8), n, "u1"))
    >>> bp.frames.map_clips("clips.blp", lambda clip: (clip.id, float(clip[:].mean())))
    [('clip0', 0.0), ('clip1', 1.0), ('clip2', 2.0)]
    """
    opened: FrameSource = source if hasattr(source, "keys") else open_frames(source)
    wanted = list(opened.keys()) if ids is None else text_list("ids", ids)
    if batch is None:
        batch = max(1, min(_MAX_BATCH, len(wanted) // _MAX_BATCH))
    if batch < 1:
        raise ValueError(f"batch must be at least 1, not {batch}")
    # One node of the graph: each worker opens the source once.
    shared = dask.delayed(opened, pure=False, traverse=False)
    call = dask.delayed(_call, pure=False)
    batches = [
        call(shared, wanted[start : start + batch], function)
        for start in range(0, len(wanted), batch)
    ]
    results = dask.delayed(_chained, pure=False)(batches)
    return dask.compute(results)[0] if compute else results


def _call(source: FrameSource, ids: Sequence[str], function: Callable[[Clip], Any]) -> list[Any]:
    return [function(source[id_]) for id_ in ids]


def _chained(batches: Sequence[list[Any]]) -> list[Any]:
    return [result for batch in batches for result in batch]
