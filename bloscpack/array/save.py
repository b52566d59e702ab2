"""Saving an array to a file that appears only when it is complete."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import IO, Any, NamedTuple, Unpack

from ..container.writer import DEFAULT_CODEC, default_shuffle
from ..exceptions import FileChangedError
from ..format.codec import CODECS
from ..format.rounding import ATTRIBUTE
from ..parallel.imports import importing
from ..parallel.progressbar import as_progress
from ..storage.protocol import ByteSink
from ..storage.remote.prefetch import prefetched
from ..storage.sink import open_sink
from ..storage.url import refuse_url
from ..types import Path, Progress, ProgressOption, explain_keywords
from .array import Array
from .arraylike import as_array, is_dask_array
from .attrs import plain
from .layout import (
    AUTO,
    SAVE_DEFAULTS,
    TARGET_CHUNK_NBYTES,
    Chunks,
    SaveOptions,
    Settings,
    is_fortran,
    plan_layout,
)


@explain_keywords(SAVE_DEFAULTS)
def save(
    path: Path | IO[bytes],
    array: Any,
    *,
    like: Array | None = None,
    nthreads: int | None = None,
    progress: ProgressOption = None,
    overwrite: bool = True,
    changeable: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[SaveOptions],
) -> None:
    """Save an array to a file that appears only when it is complete.

    Parameters
    ----------
    path : str, PathLike or binary file
        The file. An existing one is replaced when the new one is complete and synced. May be a URL
        of S3 or of another store that fsspec can write to.
    array : array_like
        Any dtype but object. An array in Fortran order is stored in that order, any other in C
        order. The name, dims, coords and attrs of an xarray DataArray are stored too, and the attrs
        of an array of h5py or Zarr. A Dask array is saved by parts
        (`bloscpack.integrations.dask.save`), in C order, to a path or URL. The file of an `Array`
        that is open for reading is copied as it is, its chunks verified; if an option is given, it
        is written again with its other settings.
    chunks : int, tuple of int or "auto", optional
        Rows per chunk, along the first axis (the last of a Fortran-ordered array), or the shape of
        a chunk as a tuple. By default whole rows of about 1 MiB. A shape that cuts another axis, or
        "auto", makes a grid of chunks, and a file of format version 4, which bloscpack 0.16 cannot
        read.
    access : {"rows", "tiles", "series"}, optional
        How the array will be read, for chunks="auto", which are about 1 MiB. By default all axes
        are cut evenly. "rows": whole rows, as without `chunks`. "tiles": parts of the last two
        axes. "series": all or much of the first axis, and little of the others; blocks of array
        chunks hold all of it, also if `chunks` is a shape.
    codec : str, default "zstd"
        "zstd", "lz4", "lz4hc", "blosclz" or "zlib" for Blosc chunks. "auto" for array chunks, which
        predict each item from its neighbours along the axes; a chunk that is smaller as a Blosc
        chunk of zstd is one. Smaller files, mostly by a third, that take longer to write and are of
        format version 4, which bloscpack 0.16 cannot read. Types without array chunks (records,
        text, long doubles) make the file of "zstd".
    clevel : int, optional
        0 (store) to 9. By default 3 for zstd, 9 for lz4hc, 5 for the others.
    shuffle : {"auto", "none", "byte", "bit"}, default "auto"
        Filter before the codec; "auto" shuffles bytes of items larger than one.
    checksum : str or None, default "crc32"
        Checksum behind each chunk. Those that bloscpack 0.16 does not have, such as "xxh3_64", make
        a file of format version 4, which it cannot read.
    attrs : mapping, optional
        JSON values to store with the array. They replace attrs of the same name of a DataArray, and
        all attrs of an `Array`.
    keepbits : int, optional
        Round each float to this number of mantissa bits, so that it compresses better: 1 to 23 for
        float32, 52 for float64, 10 for float16, 7 for bfloat16. The error is at most
        ``2**-(keepbits + 1)`` of the value. By default nothing is rounded.
    like : Array, optional
        Open array whose settings are taken for all options that are not given: its chunks, access,
        codec, shuffle, checksum, attrs and keepbits. Files do not record a level of compression.
    nthreads : int, optional
        Threads that compress; by default one per processor, at most 8. For a Dask array the
        scheduler of Dask decides.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with (bytes done, bytes in all) after each chunk; for
        a Dask array once, at the end.
    overwrite : bool, default True
        Replace an existing file. With False it is refused, before anything is compressed and again
        before the new file would replace it.
    changeable : bool, default False
        Write the file that any other one becomes when it is changed by ``open(path, "r+")``, of
        format version 4, which bloscpack 0.16 cannot read. `path` must be local.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL (keys, ``endpoint_url``).

    Raises
    ------
    ObjectNumpyArrayRejection
        `array` holds Python objects.
    TypeError
        `array` is not an array, or has parts that would be lost: a mapping, a pandas table, a
        masked array with masked items.
    ValueError, TypeError
        A parameter is out of range, or `attrs` contradict `keepbits`.
    FileExistsError
        The file exists, and `overwrite` is False.
    OSError
        The file cannot be written.
    UnsupportedError
        URLs of this kind cannot be written to (``https://``).

    Notes
    -----
    `keepbits` rounds to the nearest value, of two equally near ones to the one whose last bit is 0,
    as BitRound of numcodecs does. `array` is not changed: chunks are rounded as they are
    compressed. NaN, infinities and the sign of zero are kept. A value that rounds beyond the
    largest finite one becomes infinity. The error of a denormal number is at most
    ``2**-(keepbits + 1)`` of the smallest normal one. Both parts of a complex number are rounded;
    other types raise TypeError. The number of bits is in the attrs under the name that netCDF uses,
    ``_QuantizeBitRoundNumberOfSignificantBits``, and rows that are appended later are rounded too.

    An array for S3 is sent in parts while it is compressed, and appears when the last part has
    arrived. For other URLs it is a local temporary file, which is sent when it is complete.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.save("ramp.blp", np.arange(6).reshape(2, 3), attrs={"unit": "m"})
    >>> bp.load("ramp.blp")
    array([[0, 1, 2],
           [3, 4, 5]])
    """
    if like is not None and not isinstance(like, Array):
        raise TypeError(f"like must be an open bloscpack.Array, not {type(like).__name__!r}")
    if changeable:
        check_local(path)
    array, options = without_labels(array, options)
    if is_dask_array(array):
        _save_by_parts(
            path,
            array,
            as_progress(progress),
            **_settled(options, like)._asdict(),
            overwrite=overwrite,
            storage_options=storage_options,
        )
    else:
        plan = plan_file(array, options, like)
        with open_sink(
            path, storage_options, front_nbytes=plan.front_nbytes, overwrite=overwrite
        ) as sink:
            plan.write(sink, nthreads=nthreads, progress=as_progress(progress))
    if changeable:
        with importing:  # on use: few files change
            from .changes import make_changeable

        make_changeable(path, nthreads=nthreads)


def check_local(path: Path | IO[bytes]) -> None:
    """Check that a file can be changed in place; raises UnsupportedError or TypeError."""
    refuse_url(path, "changed in place")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"changeable needs a path, not {type(path).__name__!r}")


def _given(options: SaveOptions) -> dict[str, Any]:
    """Return the options that a caller has given, without those that are None for the default."""
    return {k: v for k, v in options.items() if v is not None or SAVE_DEFAULTS[k] is not None}


def _settled(options: SaveOptions, like: Array | None) -> Settings:
    """Return options, with the settings of `like` in place of those that were not given.

    Raises
    ------
    FormatError, OSError
        The first chunk of `like`, which has some of its settings, cannot be read.
    """
    wanted = _given(options)
    if like is None:
        return Settings(**wanted)
    found = _settings_of(like)
    if "chunks" in wanted:
        found = found._replace(access=None)
    if "keepbits" in wanted and found.attrs:
        found = found._replace(attrs={k: v for k, v in found.attrs.items() if k != ATTRIBUTE})
    return found._replace(**wanted)


def _settings_of(array: Array) -> Settings:
    container = array.container
    metadata = container.metadata
    if not isinstance(metadata, dict) or metadata.get("container") != "numpy":
        metadata = {}
    codec, shuffle = array.codec, "auto"
    if container.nchunks and codec != AUTO:
        header = container.fetch(0).header
        if header.shuffle != default_shuffle(header.typesize):
            shuffle = header.shuffle.name.lower()
    return Settings(
        array.chunks if container.grid is not None else _rows_of(array),
        metadata.get("access"),
        codec if codec in (*CODECS, AUTO) else DEFAULT_CODEC,
        None,
        shuffle,
        array.checksum,
        plain(array.attrs) or None,
        metadata.get("keepbits"),
    )


def _rows_of(array: Array) -> Chunks:
    """Return the rows of a chunk; None for the default, if a chunk has only a part of a row."""
    container = array.container
    row: Any = prod(array.shape[:-1] if array.is_fortran else array.shape[1:])
    row *= array.dtype.itemsize
    # A single chunk may be as small as the array, and must not make the chunks of a larger one so.
    is_small = container.nchunks <= 1 and container.chunk_size < TARGET_CHUNK_NBYTES
    if not array.ndim or not row or is_small or container.chunk_size % row:
        return None
    rows: int = container.chunk_size // row
    return rows or None


class FilePlan(NamedTuple):
    """How an array is written to a sink."""

    front_nbytes: int  # bytes before the first chunk
    write: Callable[..., None]  # takes a sink, nthreads and progress


def plan_file(
    value: Any, options: SaveOptions, like: Array | None = None, *, several: bool = False
) -> FilePlan:
    """Return how an array is written, with the settings of `like` or those of its own file.

    If it is one of `several`, `chunks` is not for those without dimensions.
    """
    if isinstance(value, Array):
        if value.mode == "r" and like is None and not _given(options):
            return FilePlan(value.container.data_offset, partial(_copy, value))
        like = value if like is None else like
    array = as_array(value)
    settings = _settled(options, like)
    if not array.ndim and (several or options.get("chunks") is None):
        settings = settings._replace(chunks=None, access=options.get("access"))
    layout = plan_layout((array.dtype, array.shape, is_fortran(array)), settings)
    return FilePlan(layout.front_nbytes, partial(layout.write, array=array))


def _copy(
    array: Array, sink: ByteSink, *, nthreads: int | None = None, progress: Progress | None = None
) -> None:
    """Copy the file of an array byte for byte, a log in its smallest form; verify its chunks."""
    container = array.container
    source, end = container.source, 0
    if container.front.commit is not None:
        with importing:  # on use: few files change
            from ..container.compact import write_compact

        write_compact(container, sink, progress)
        return
    # Without the check, bytes of before and after an append could be mixed.
    if not source.is_changed():
        digest_nbytes = container.header.checksum.nbytes
        for group in prefetched(source, range(container.nchunks), container.stored.extent):
            for index in group:
                chunk = container.fetch(index)
                begin, end = end, chunk.offset + len(chunk.data) + digest_nbytes
                sink.write(source.read_at(begin, end - begin))
                if progress is not None:
                    done = container.chunk_start(index) + chunk.header.nbytes
                    progress(done, container.nbytes)
        sink.write(source.read_at(end, source.size() - end))
    if source.is_changed():
        raise FileChangedError("the file was changed since it was opened; reopen it").at(
            path=source.name
        )


def without_labels(value: Any, options: SaveOptions) -> tuple[Any, SaveOptions]:
    """Return an array without its labels and attrs, and options with them."""
    has_labels = getattr(value, "attrs", None) or hasattr(value, "coords")
    if not has_labels or isinstance(value, Array):
        return value, options
    with importing:  # on use: few programs have labels
        from .axislabels import unlabelled

    value, attrs = unlabelled(value)
    if attrs:
        options = {**options, "attrs": {**attrs, **(options.get("attrs") or {})}}
    return value, options


def _save_by_parts(
    path: Path | IO[bytes], array: Any, progress: Progress | None, **options: Any
) -> None:
    with importing:  # on use: Dask takes long to load
        from .daskparts import save as save_parts

    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            "a Dask array is saved by parts, to a path or URL and not to a file object; save "
            "x.compute() to a file object"
        )
    save_parts(array, path, **options)
    if progress is not None:
        progress(array.nbytes, array.nbytes)
