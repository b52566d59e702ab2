"""Dask arrays to files: each worker writes its blocks as parts of the file (`parts`).

The file appears only when it is complete, and its bytes do not depend on the number of workers.
Everything runs on Dask's current scheduler: threads, processes or a cluster.
"""

import os
from collections.abc import Mapping
from itertools import accumulate
from math import prod
from threading import Event
from typing import Any, Unpack

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed

from ..container.chunkparts import PartRecord
from ..keywords import DEFAULT_BLOCK, explain_keywords, nbytes_of
from ..types import AnyArray, Path
from .arraylike import as_array, is_dask_array
from .attrs import check_dims
from .labelled import unlabelled
from .layout import SAVE_DEFAULTS, SaveOptions
from .parts import PartsJob

# A job with a place for parts, and the tag of the file that existed before. With None, a task that
# runs again after its parts were removed fails, whether or not there is a file.
_Begun = tuple[PartsJob, str | None]

# Tasks that write a part in this process: its id, path and id of the job, and the end of the task.
_RUNNING: set[tuple[int, str, str, Event]] = set()


@explain_keywords(SAVE_DEFAULTS)
def save(
    array: Any,
    path: Path,
    *,
    compute: bool = True,
    block: int | str = DEFAULT_BLOCK,
    order: str = "C",
    overwrite: bool = True,
    id: str | None = None,  # noqa: A002
    verify: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[SaveOptions],
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
    chunks, access, codec, clevel, shuffle, checksum, attrs, keepbits, stats
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
    options["attrs"] = {**labels, **(options.get("attrs") or {})}
    array = array if is_dask_array(array) else da.from_array(as_array(array))
    if any(length != length for length in array.shape):  # NaN
        raise ValueError(
            f"the shape {array.shape} is not known: call compute_chunk_sizes() of the array first"
        )
    job = PartsJob(
        path,
        shape=array.shape,
        dtype=array.dtype,
        order=order,
        overwrite=overwrite,
        id=id,
        storage_options=storage_options,
        **options,
    )
    check_dims(options["attrs"], job.shape)
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
        lengths = cut_evenly(job.nrows, max(wanted, step))
    return tuple(
        lengths if each == job.axis else (array.shape[each],) for each in range(array.ndim)
    )


def cut_evenly(nrows: int, step: int) -> tuple[int, ...]:
    """Return the lengths of pieces of `step` rows, the last one shorter."""
    whole, rest = divmod(nrows, step)
    return (step,) * whole + ((rest,) if rest or not whole else ())


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
