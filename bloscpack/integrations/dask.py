"""Arrays in files as Dask arrays, Dask arrays to files, and clips in Dask tasks.

Blocks are whole chunks, so that no chunk is decoded or compressed twice. Everything runs on Dask's
current scheduler: threads, processes or a cluster.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..array.array import Array
from ..array.attrs import plain
from ..array.chunkpieces import rows_of_whole_chunks
from ..filetypes.open import open_frames
from ..format.header import FEATURE_GRID
from ..frames.protocol import Clip, FrameSource
from ..keywords import DEFAULT_BLOCK, nbytes_of, text_list
from ..storage.url import refuse_options

try:
    import dask
    import dask.array as da

    from ..array.daskparts import cut_evenly, save
except ImportError as err:
    raise ImportError(
        "bloscpack.integrations.dask needs Dask with its arrays: pip install 'bloscpack[dask]'",
        name=err.name,
    ) from err

__all__ = ["from_bloscpack", "map_clips", "save"]

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
    if isinstance(path, Array):
        refuse_options(path, storage_options)
    else:
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
        return tuple(cut_evenly(length, step) for length, step in zip(shape, steps, strict=True))
    axis = array.ndim - 1 if array.is_fortran else 0
    nrows = shape[axis]
    row_nbytes = array.nbytes // nrows if nrows else 0
    step = rows_of_whole_chunks(array.header.chunk_size, array.nchunks, row_nbytes, nrows)
    wanted = max(1, block_nbytes // row_nbytes) if row_nbytes else step
    if step <= wanted:
        step = wanted // step * step
    elif step * row_nbytes > array.header.chunk_size:
        step = wanted
    lengths = cut_evenly(nrows, step)
    return tuple(lengths if each == axis else (shape[each],) for each in range(array.ndim))


def _grid_steps(array: Array, chunks: tuple[int, ...], block_nbytes: int) -> list[int]:
    """Return the length of a block along each axis: as many neighbouring chunks as fit."""
    steps = list(chunks)
    for axis in range(array.ndim) if array.is_fortran else range(array.ndim - 1, -1, -1):
        nbytes = prod(steps) * array.dtype.itemsize
        count = -(-array.shape[axis] // chunks[axis])
        steps[axis] *= max(1, min(block_nbytes // max(nbytes, 1), count))
    return steps


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
    if batch is not None and batch < 1:
        raise ValueError(f"batch must be at least 1, not {batch}")
    if compute and not hasattr(source, "keys"):
        with open_frames(source) as clips:
            return map_clips(clips, function, ids=ids, batch=batch)
    # A source that is opened for a `Delayed` is closed with it.
    opened: FrameSource = source if hasattr(source, "keys") else open_frames(source)
    wanted = list(opened.keys()) if ids is None else text_list("ids", ids)
    if batch is None:
        batch = max(1, min(_MAX_BATCH, len(wanted) // _MAX_BATCH))
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
