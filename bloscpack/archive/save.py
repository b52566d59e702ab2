"""Saving an array to a file, or several to an archive, that appears only when it is complete."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import IO, Any, Literal, Unpack

from ..array.array import Array
from ..array.arraylike import filled, is_dask_array, is_dataset, is_mapping
from ..array.axislabels import NONE_NAME, Coord
from ..array.fileplan import plan_file, settings_from, without_labels
from ..array.layout import SAVE_DEFAULTS, Chunks, SaveOptions
from ..container.compact import write_compact
from ..format.archiveindex import check_name
from ..format.metadata import attr_values
from ..keywords import explain_keywords, foreign_keyword
from ..parallel.imports import importing
from ..parallel.progressbar import as_progress
from ..storage import disk
from ..storage.file import FileSource
from ..storage.journal import replacing
from ..storage.sink import open_path, open_sink
from ..storage.url import is_url, refuse_url
from ..types import Codec, Path, Progress, ProgressOption
from .coordinates import CoordArrays
from .reader import Archive
from .table import Column, columns_of, is_table
from .writer import ArchiveWriter


@explain_keywords(SAVE_DEFAULTS)
def save(
    path: Path | IO[bytes],
    array: Any,
    *,
    like: Array | None = None,
    fill_value: Any = None,
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
        of an array of h5py or Zarr; its `encoding` applies, as in ``to_netcdf``. A Dataset becomes
        an archive, as by `savez`, and so does a DataFrame of pandas whose columns have types of
        numpy (see Notes). A Dask array is saved by parts (`bloscpack.integrations.dask.save`), in C
        order, to a path or URL. The file of an `Array` that is open for reading is copied as it is,
        its chunks verified; if an option is given, it is written again with its other settings.
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
    stats : bool, default False
        Store statistics of each chunk for `Array.stats`, `Array.min`, `Array.max` and
        `Array.chunks_where`: 32 bytes, which bloscpack 0.16 ignores. For integers, floats of at
        most 64 bits, bool and times; other variables of a Dataset have none. Appending and changes
        by ``open(path, "r+")`` keep them up to date.
    like : Array, optional
        Open array whose settings are taken for all options that are not given: its chunks, access,
        codec, shuffle, checksum, attrs, keepbits and stats. Files do not record a level of
        compression.
    fill_value : scalar, optional
        Value stored for the masked items of a masked array, which must differ from all others. It
        is ``attrs["_FillValue"]``, by which xarray, netCDF and Zarr know that they are missing.
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
        masked array with masked items and no `fill_value`, a list whose items numpy changes.
    ValueError, TypeError
        A parameter is out of range, `attrs` contradict `keepbits`, items of xarray would not be
        read back with their encoding, an item is equal to `fill_value`, `stats` are for items that
        have none, or the labels of `like` do not fit `array`.
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

    Each column of a DataFrame is an array of the archive, and its index their coordinate: numbers,
    times or text. `Archive.to_dataframe` returns it. Columns of other types (text, categories, with
    missing values of pandas) and an index of several levels are refused; the frequency of an index
    of times is not stored.

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
    if fill_value is not None:
        array, options = _without_mask(array, fill_value, options, like)
    if is_dataset(array) or is_table(array):
        if like is not None or progress is not None:
            raise TypeError("like and progress are for one array, not for a Dataset or DataFrame")
        attrs = options.pop("attrs", None)
        _save_several(
            path,
            (array,),
            attrs,
            options,
            nthreads=nthreads,
            overwrite=overwrite,
            changeable=changeable,
            storage_options=storage_options,
        )
        return
    if like is not None and not isinstance(like, Array):
        raise TypeError(f"like must be an open bloscpack.Array, not {type(like).__name__!r}")
    if changeable:
        _check_local(path)
    array, options = without_labels(array, options)
    if is_dask_array(array):
        _save_by_parts(
            path,
            array,
            as_progress(progress),
            **settings_from(options, like, array.shape)._asdict(),
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
            from ..array.changes import make_changeable

        make_changeable(path, nthreads=nthreads)


def _without_mask(
    array: Any, fill_value: Any, options: SaveOptions, like: Array | None
) -> tuple[Any, SaveOptions]:
    """Return a masked array with its fill value, and options with that as an attr."""
    array, fill = filled(array, fill_value)
    if like is not None or (options.get("keepbits") is not None and fill == fill):
        raise ValueError(
            "fill_value is not given with like, or keepbits, which may round items to it"
        )
    attrs = {**(options.get("attrs") or {})}
    if attrs.setdefault("_FillValue", fill) != fill and fill == fill:
        raise ValueError(f"attrs['_FillValue'] is {attrs['_FillValue']!r:.80}, fill_value {fill!r}")
    return array, {**options, "attrs": attrs}


def _check_local(path: Path | IO[bytes]) -> None:
    refuse_url(path, "changed in place")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"changeable needs a path, not {type(path).__name__!r}")


def _save_by_parts(
    path: Path | IO[bytes], array: Any, progress: Progress | None, **options: Any
) -> None:
    with importing:  # on use: Dask takes long to load
        from ..array.daskparts import save as save_parts

    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            "a Dask array is saved by parts, to a path or URL and not to a file object; save "
            "x.compute() to a file object"
        )
    save_parts(array, path, **options)
    if progress is not None:
        progress(array.nbytes, array.nbytes)


class _Default(str):
    """Default of an option: another object than the same text, if a caller gives it."""

    __slots__ = ()


_CODEC: Literal["zstd"] = _Default("zstd")  # type: ignore[assignment]
_CHECKSUM = _Default("crc32")
# Options of `savez` that may be names of arrays, too.
_FLAGS = ("overwrite", "changeable", "stats")
_VALUES = ("chunks", "codec", "clevel", "checksum", "attrs", "nthreads", "storage_options")
_OPTIONS = (*_VALUES, *_FLAGS)
# Options that only `save` has.
_OF_SAVE = ("access", "shuffle", "keepbits", "like", "fill_value", "progress")


def savez(
    path: Path | IO[bytes],
    /,
    *arrays: Any,
    chunks: Chunks = None,
    codec: Codec = _CODEC,
    clevel: int | None = None,
    checksum: str | None = _CHECKSUM,
    attrs: Mapping[str, Any] | None = None,
    nthreads: int | None = None,
    overwrite: bool = True,
    changeable: bool = False,
    stats: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **named: Any,
) -> None:
    """Save several named arrays to one file, an archive, as `numpy.savez` does.

    Parameters
    ----------
    path : str, PathLike or binary file
        The file, which appears only when it is complete; an existing one is replaced. May be a URL
        of S3 or of another store that fsspec can write to. No suffix is added.
    *arrays : array_like, mapping or iterator
        Arrays, which are named "arr_0", "arr_1" and so on. The arrays in a mapping keep their
        names, and the mapping its attrs: a dict, an open npz file, an `Archive`, a Dataset of
        xarray, a DataFrame of pandas (as for `save`). So do those of an iterator of pairs of name
        and array, of which one is in memory at a time.
    chunks : int or "auto", optional
        As for `save`, for all arrays with dimensions.
    codec, clevel, checksum
        As for `save`, for all arrays.
    attrs : mapping, optional
        JSON values to store with the archive; they replace attrs of the same name of a mapping.
    nthreads : int, optional
        Threads that compress; by default one per processor, at most 8.
    overwrite : bool, default True
        Replace an existing file. With False it is refused, before anything is compressed and again
        before the new file would replace it.
    changeable : bool, default False
        Write the file that any other archive becomes when it is changed by ``open(path, "r+")``.
        `path` must be local.
    stats : bool, default False
        Store statistics of each chunk, as for `save`, of all arrays whose items have them.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL (keys, ``endpoint_url``).
    **named : array_like
        Arrays by name. A name that is also that of an option is given in a mapping.

    Raises
    ------
    ObjectNumpyArrayRejection
        An array holds Python objects.
    TypeError
        A value is not an array or has parts that would be lost, as for `save`; or a name is not a
        str.
    ValueError
        Two arrays have the same name, a name has more than 4096 bytes, or a parameter is out of
        range.
    FileExistsError
        The file exists, and `overwrite` is False.
    OSError
        The file cannot be written.
    UnsupportedError
        URLs of this kind cannot be written to (``https://``).

    Notes
    -----
    After an error there is no new file. The file is of format version 4, which bloscpack 0.16
    cannot read; each array in it is a whole file as `save` writes it, and eight or more small ones
    in a row are compressed together. ``open(path, "r+")`` adds arrays to it, and changes and
    removes them.

    For a URL it is a local temporary file, which is sent when it is complete.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.savez("fields.blp", temperature=np.linspace(270, 300, 7), mask=np.ones((2, 3), bool))
    >>> with bp.open("fields.blp") as fields:
    ...     fields["mask"].shape
    (2, 3)
    """
    options: SaveOptions = {"chunks": chunks, "clevel": clevel}
    if stats is True:
        options["stats"] = True
    if codec is not _CODEC:
        options["codec"] = codec
    if checksum is not _CHECKSUM:
        options["checksum"] = checksum
    _refuse_foreign(named)
    values = (chunks, codec, clevel, checksum, attrs, nthreads, storage_options)
    for option, value in zip(_OPTIONS, (*values, overwrite, changeable, stats), strict=True):
        is_flag = option in _FLAGS
        if getattr(value, "ndim", 0) or (is_flag and not isinstance(value, bool)):
            expected = "True or False" if is_flag else "a value of this option"
            raise TypeError(
                f"{option} must be {expected}; give an array of this name in a mapping, such as "
                f"{{{option!r}: array}}"
            )
    _save_several(
        path,
        (*arrays, named),
        attrs,
        options,
        nthreads=nthreads,
        overwrite=overwrite,
        changeable=changeable,
        storage_options=storage_options,
    )


def _save_several(
    path: Path | IO[bytes],
    arrays: tuple[Any, ...],
    attrs: Mapping[str, Any] | None,
    options: SaveOptions,
    *,
    nthreads: int | None,
    overwrite: bool,
    changeable: bool,
    storage_options: Mapping[str, Any] | None,
) -> None:
    """Save arrays, mappings and iterators to an archive."""
    attrs = _attrs_of_all(arrays) | attr_values(attrs)
    if changeable:
        _check_local(path)
    # Coordinates are never rounded, and have other shapes.
    of_coords: Any = dict(options)
    for key in ("chunks", "access", "keepbits"):
        of_coords.pop(key, None)
    with ExitStack() as stack:
        where, options_of_path = path, storage_options
        if is_url(path):
            where = stack.enter_context(open_path(str(path), storage_options, overwrite=overwrite))
            options_of_path = None
        with open_sink(where, options_of_path, overwrite=overwrite) as sink:
            writer = ArchiveWriter(sink, attrs)

            def write(name: str, value: Any, options: Any) -> None:
                with writer.member(name) as member:
                    plan_file(value, options, several=True).write(member, nthreads=nthreads)

            coords = CoordArrays(
                writer, lambda name, value, attrs: write(name, value, {**of_coords, "attrs": attrs})
            )
            for key, value in _iter_named(arrays):
                name = check_name(key)
                if isinstance(value, Coord):
                    coords.add_unused(name, value)
                    continue
                if isinstance(value, Column):
                    packed = value.packed_labels(name, coords.beside(""))
                    write(name, value.values, {**options, "attrs": packed})
                    continue
                if isinstance(value, Array):
                    coords.note(name, value)
                write(name, *without_labels(value, options, coords.beside(name)))
            writer.finish()
    if changeable:
        with importing:  # on use: few files change
            from ..array.archivechanges import make_changeable

        make_changeable(path)


def _attrs_of_all(arrays: tuple[Any, ...]) -> dict[str, Any]:
    """Return the attrs of all mappings and tables."""
    found: dict[str, Any] = {}
    for value in arrays:
        if is_mapping(value) or is_table(value):
            found |= without_labels(value, {})[1].get("attrs") or {}
    return found


def compact_archive(path: Path, *, progress: Progress | None = None) -> None:
    """Replace the file of an archive that was changed by the one that `savez` writes of it.

    `progress` is called with (decoded bytes done, decoded bytes in all).

    Raises
    ------
    LockedError
        A writer has it open.
    FormatError, OSError
        It is damaged, or cannot be written. It is unchanged.
    """
    # The lock keeps writers away, but lets the new file replace this one.
    with replacing(disk.target_of(path)), Archive(FileSource(path)) as archive:
        if archive.dead_nbytes is None:
            return
        total, done = sum(array.nbytes for array in archive.values()), 0

        def note(nbytes: int, _: int) -> None:
            if progress is not None:
                progress(done + nbytes, total)

        with open_sink(path) as sink:
            writer = ArchiveWriter(sink, archive.attrs)
            for name, array in archive.items():
                with writer.member(name) as member:
                    write_compact(array.container, member, note)
                done += array.nbytes
            writer.finish()


def _refuse_foreign(named: Mapping[str, Any]) -> None:
    """Refuse options of others and of `save`, which would be stored as arrays of no dimension."""
    for name, value in named.items():
        if value is None or isinstance(value, str | int | float | Mapping):
            advice = foreign_keyword((name,), _OPTIONS)
            advice = f"{name!r}, which save has" if name in _OF_SAVE else advice
            if advice is not None:
                raise TypeError(
                    f"savez() has no {advice}; give an array of this name in a mapping, such as "
                    f"{{{name!r}: array}}"
                )


def _iter_named(arrays: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the arguments of `savez`, and coordinates of no array."""
    number = 0
    for value in arrays:
        if is_dataset(value):
            with importing:  # on use: few mappings are of xarray
                from ..array.cfencoding import stored_coords

            used = {name for each in value.data_vars.values() for name in each.coords}
            unused = [name for name in value.coords if name not in used]
            yield from stored_coords(value, unused).items()
        if is_mapping(value):
            for name in value.keys():  # noqa: SIM118 - groups of zarr have no other iterator
                yield NONE_NAME if name is None and is_dataset(value) else name, value[name]
        elif is_table(value):
            yield from columns_of(value)
        elif isinstance(value, Iterator):
            for pair in value:
                if not isinstance(pair, tuple) or len(pair) != 2:
                    raise TypeError(
                        f"an iterator must give pairs of name and array, not {pair!r:.80}"
                    )
                yield pair
        else:
            yield f"arr_{number}", value
            number += 1
