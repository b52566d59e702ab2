"""Arrays in files as Dask arrays, Dask arrays to files, and clips in Dask tasks.

Blocks are whole chunks, so that no chunk is decoded or compressed twice. A
Dask array is written as parts (`bloscpack.parts`): the file appears only when it is complete, and
its bytes do not depend on the number of workers. Everything runs on Dask's current scheduler:
threads, processes or a cluster. Only this module imports Dask.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import prod
from threading import Event
from typing import Any

import numpy as np

from ..array.array import Array
from ..array.attrs import plain
from ..array.chunkpieces import rows_of_whole_chunks
from ..array.layout import Chunks
from ..array.parts import PartsJob
from ..container.chunkparts import PartRecord
from ..filetypes.open import open_frames
from ..format.header import FEATURE_GRID
from ..frames.protocol import Clip, FrameSource
from ..types import DEFAULT_BLOCK, Access, AnyArray, Codec, Path, Shuffle, nbytes_of, text_list
from .axislabels import unlabelled

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

# A job with a place for parts, and the tag of the file that existed before. With None, a task that
# runs again after its parts were removed fails, whether or not there is a file.
_Begun = tuple[PartsJob, str | None]

# Tasks that write a part in this process: its id, path and id of the job, and the end of the task.
_RUNNING: set[tuple[int, str, str, Event]] = set()

# Most clips per task of `map_clips`: opening a source and running a task cost about 1 ms each.
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
        The file, its URL, or an open array.
    block : int or str, default "64 MiB"
        Largest decoded size of a block: a number of bytes, or text with a unit. Blocks are whole
        chunks: of a grid along all axes, of others along the first axis (the last one of an array
        in Fortran order). A chunk of whole
        rows that is larger is one block. If rows and chunks only meet after more bytes than that,
        blocks are whole rows that share chunks.
    verify, nthreads, storage_options
        As for `bloscpack.open`. In a task, one thread reads by default.

    Returns
    -------
    dask.array.Array
        A Dask array whose name is a token of the file's content: equal for the same file, another
        one after a change. Its `attrs` are those of the file; arrays computed from it have none.

    Raises
    ------
    FormatError, UnsupportedError, OSError
        As for `bloscpack.open`.
    TypeError
        Workers cannot open the array: it was opened from a file object, or for appending.

    Notes
    -----
    The file is opened once here, and once in each worker process, which must reach it by the same
    path. If it has changed since, a worker raises `FileChangedError`.

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
        array = Array(path, verify=verify, nthreads=nthreads, storage_options=storage_options)
    array.__reduce__()  # raises here if workers cannot open it, not in the middle of the work
    result = da.from_array(
        array,
        chunks=_blocks_of(array, nbytes_of(block)),
        lock=False,
        asarray=True,
        meta=np.empty((0,) * array.ndim, array.dtype),
    )
    result.attrs = plain(array.attrs)
    return result


def _blocks_of(array: Array, block_nbytes: int) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of the blocks along each axis."""
    shape = array.shape
    if not shape:
        return ()
    if array.header.features & FEATURE_GRID and array.chunks is not None:
        steps = _grid_steps(array, array.chunks, block_nbytes)
        return tuple(_cut(length, step) for length, step in zip(shape, steps, strict=True))
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


def _grid_steps(array: Array, chunks: tuple[int, ...], block_nbytes: int) -> list[int]:
    """Return the length of a block along each axis: as many neighbouring chunks as fit."""
    steps = list(chunks)
    for axis in range(array.ndim) if array.is_fortran else range(array.ndim - 1, -1, -1):
        nbytes = prod(steps) * array.dtype.itemsize
        count = -(-array.shape[axis] // chunks[axis])
        steps[axis] *= max(1, min(block_nbytes // max(nbytes, 1), count))
    return steps


def _cut(nrows: int, step: int) -> tuple[int, ...]:
    whole, rest = divmod(nrows, step)
    return (step,) * whole + ((rest,) if rest or not whole else ())


def save(
    array: Any,
    path: Path,
    *,
    compute: bool = True,
    block: int | str = DEFAULT_BLOCK,
    chunks: Chunks = None,
    access: Access | None = None,
    order: str = "C",
    codec: Codec = "zstd",
    clevel: int | None = None,
    shuffle: Shuffle = "auto",
    checksum: str | None = "crc32",
    attrs: Mapping[str, Any] | None = None,
    keepbits: int | None = None,
    overwrite: bool = True,
    id: str | None = None,  # noqa: A002
    verify: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Write a Dask array to a file or an object; each worker writes its blocks.

    Parameters
    ----------
    array : dask.array.Array
        Array of known shape; any dtype but object. Labels and attrs are stored as by
        `bloscpack.save`: those of a DataArray, and the `attrs` of what `from_bloscpack` returns.
    path : str or PathLike
        The file, in a folder that all workers reach by this path, or the URL of an object. An
        existing one is replaced when the new one is complete, a file also after it is synced.
    compute : bool, default True
        If False, return a `Delayed` that writes the file when it is computed, and returns the path.
    block : int or str, default "64 MiB"
        Decoded bytes of a block if the array is rechunked. This is needed if it is split along
        another axis than the first (the last one, in Fortran order). Blocks that only end inside a
        chunk have their borders moved, by less than a chunk.
    chunks, access, codec, clevel, shuffle, checksum, attrs, keepbits
        As for `bloscpack.save`.
    order, overwrite, id, storage_options
        As for `bloscpack.parts`.
    verify : bool, default True
        Read each part again and compare its digest before it is joined. One worker reads all
        parts, so the whole file passes through it if the parts are behind a URL.

    Returns
    -------
    str or Delayed
        The path as given.

    Raises
    ------
    ValueError
        The shape is unknown, or a parameter is out of range.
    Exception
        Any error of a task; no file is written, and all parts are removed.

    Notes
    -----
    The file is byte for byte the one that `bloscpack.save` writes of the whole array. Some rows
    from the middle are computed twice: they are a sample to choose the size of Blosc blocks by.

    A worker holds the blocks that it computes, and compresses them one chunk at a time. If a worker
    is lost, others compute its blocks again. The last task joins the parts without decoding them.
    Parts in S3 are copied on the server; they are fetched only to be verified, or if they are
    small.

    After an error of a `Delayed`, or if this program is killed, parts are left in a hidden folder
    beside the file, or at such a URL. ``bloscpack.PartsJob.abort`` removes them, with
    ``others=True`` or for the same `id`.

    `storage_options` are sent to the workers with the tasks, including keys.

    Examples
    --------
    >>> import bloscpack as bp, dask.array as da
    >>> from bloscpack.integrations.dask import save
    >>> save(da.arange(1000, chunks=300), "ramp.blp")
    'ramp.blp'
    >>> bp.load("ramp.blp")[-3:]
    array([997, 998, 999])
    """
    array, labels = unlabelled(array)
    attrs = {**labels, **(attrs or {})}
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
        access=access,
        order=order,
        codec=codec,
        clevel=clevel,
        shuffle=shuffle,
        checksum=checksum,
        attrs=attrs,
        keepbits=keepbits,
        overwrite=overwrite,
        id=id,
        storage_options=storage_options,
    )
    lengths = _part_lengths(array, job, nbytes_of(block))
    # Not pure: equal arguments must not become the task of another call, whose work is done.
    begun = dask.delayed(_begin, pure=False)(job, _sample(array, job))
    if array.chunks != lengths:
        array = array.rechunk(lengths)
    if not compute:
        return dask.delayed(_end, pure=False)(job, _joined(array, job, begun, verify))
    try:
        # Computed alone, so that memory holds nothing else until blocks can be written.
        ((ready, _),) = dask.compute(begun)
        (name,) = dask.compute(_joined(array, job, (ready, None), verify))
    except BaseException as err:
        _clean_up(job, err)
        raise
    # The file exists and this program has its result, so no task runs again.
    dask.compute(dask.delayed(_end, pure=False)(job))
    return name


def _sample(array: da.Array, job: PartsJob) -> da.Array | None:
    wanted = job.sample_rows
    return None if wanted is None else array[(slice(None),) * job.axis + (slice(*wanted),)]


def _part_lengths(array: da.Array, job: PartsJob, block_nbytes: int) -> tuple[Any, ...]:
    """Return the lengths of blocks along each axis that can be written as parts."""
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
    """Return the task that writes the file of `array`, whose blocks are parts of the job.

    `begun` is computed before any part is written. Joining takes only the records of the parts, so
    that a single task begins the job.
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
    """Write a block; return its record in place of the block."""
    job, tag = begun
    places = block_info[0]["array-location"]
    start = places[job.axis][0] if places else 0
    record = np.empty((1,) * rows.ndim, object)
    running = os.getpid(), job.path, job.id, Event()
    _RUNNING.add(running)
    try:
        record[...] = job.write(start, rows)
    except FileNotFoundError:
        # The parts are gone. If the file exists, a worker was lost after it removed them, and
        # records with it: all tasks run again. Otherwise the job was aborted and this task is late.
        if tag is None or tag == job.target_tag():
            raise
        record[...] = job.begin().write(start, rows)
    finally:
        _RUNNING.discard(running)
        running[-1].set()
    return record


def _join(job: PartsJob, records: AnyArray, verify: bool = True) -> str:
    found: list[PartRecord] = np.asarray(records, object).ravel().tolist()
    job.join(found, verify=verify)
    return job.path


def _end(job: PartsJob, name: str = "") -> str:
    """Remove the parts of a job; return `name`.

    After an error other threads may still write parts. They find that the job has ended, and remove
    them.
    """
    job.abort()
    for *running, end in tuple(_RUNNING):
        if running == [os.getpid(), job.path, job.id]:
            end.wait()
    return name


def _clean_up(job: PartsJob, err: BaseException) -> None:
    """Remove the parts in a task, as this process may not reach the folder of the workers."""
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
    """Call a function for every clip of a source in Dask tasks.

    Parameters
    ----------
    source : path, sequence of paths or source of clips
        A source, or anything that `bloscpack.frames.open` opens. Workers open it by its path or
        URL, which they must reach.
    function : callable
        Called with a clip that is not decoded yet; returns a result, which should be small. The
        function and its results must pickle if workers are processes.
    ids : iterable of str, optional
        Ids of the clips to take, in this order; by default all.
    batch : int, optional
        Clips per task; by default enough to make at least 64 tasks, at most 64.
    compute : bool, default True
        If False, return a `Delayed`, which returns the list when it is computed.

    Returns
    -------
    list or Delayed
        The results, in the order of the clips.

    Raises
    ------
    NotFoundError
        An id does not exist.
    ValueError
        `batch` is less than 1.
    Exception
        Any error of the function.

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
    # One node of the graph, so that each worker opens the source once.
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
