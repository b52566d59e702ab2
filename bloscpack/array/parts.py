"""An array written by many workers, of any kind: each writes some rows, one makes the file.

What runs the workers does not matter: threads, processes, a cluster. They need the job, which
pickles small, and reach the folder of the file, or the store that its URL names; what they return
is small, too.
"""

from collections.abc import Mapping
from typing import Any

from .layout import Path
from .partsjob import PartsJob


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
