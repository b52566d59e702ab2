"""Saving several named arrays to an archive that appears only when it is complete."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import IO, Any, Literal

from ..array.arraylike import is_mapping
from ..array.layout import Chunks, SaveOptions
from ..array.save import check_local, plan_file, without_labels
from ..container.compact import write_compact
from ..parallel.imports import importing
from ..storage import disk
from ..storage.file import FileSource
from ..storage.journal import replacing
from ..storage.sink import open_path, open_sink
from ..storage.url import is_url
from ..types import Codec, Path, Progress, foreign_keyword
from .reader import Archive
from .writer import ArchiveWriter


class _Default(str):
    """Default of an option: another object than the same text, if a caller gives it."""

    __slots__ = ()


_CODEC: Literal["zstd"] = _Default("zstd")  # type: ignore[assignment]
_CHECKSUM = _Default("crc32")


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
        xarray. So do those of an iterator of pairs of name and array, of which one is in memory at
        a time.
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
    cannot read; each array in it is a whole file as `save` writes it. ``open(path, "r+")`` adds
    arrays to it, and changes and removes them.

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
    if codec is not _CODEC:
        options["codec"] = codec
    if checksum is not _CHECKSUM:
        options["checksum"] = checksum
    _refuse_foreign(named)
    found: dict[str, Any] = {}
    for value in filter(is_mapping, arrays):
        found |= without_labels(value, {})[1].get("attrs") or {}
    for option, flag in (("overwrite", overwrite), ("changeable", changeable)):
        if not isinstance(flag, bool):
            raise TypeError(
                f"{option} must be True or False; give an array of this name in a mapping, such as "
                f"{{{option!r}: array}}"
            )
    if changeable:
        check_local(path)
    with ExitStack() as stack:
        where, options_of_path = path, storage_options
        if is_url(path):
            where = stack.enter_context(open_path(str(path), storage_options, overwrite=overwrite))
            options_of_path = None
        with open_sink(where, options_of_path, overwrite=overwrite) as sink:
            writer = ArchiveWriter(sink, found | ({} if attrs is None else dict(attrs)))
            for name, value in _iter_named(arrays, named):
                with writer.member(name) as member:
                    plan_file(*without_labels(value, options), several=True).write(
                        member, nthreads=nthreads
                    )
            writer.finish()
    if changeable:
        with importing:  # on use: few files change
            from ..array.memberchanges import make_changeable

        make_changeable(path)


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
        if not archive.is_changed:
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
    """Refuse options of other libraries, which would be stored as arrays of no dimension."""
    flags = ("overwrite", "changeable")
    options = ("chunks", "codec", "clevel", "checksum", "attrs", "nthreads", *flags)
    for name, value in named.items():
        if value is None or isinstance(value, str | int | float | Mapping):
            advice = foreign_keyword((name,), options)
            if advice is not None:
                raise TypeError(
                    f"savez() has no {advice}; give an array of this name in a mapping, such as "
                    f"{{{name!r}: array}}"
                )


def _iter_named(arrays: tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the arguments of `savez`."""
    number = 0
    for value in arrays:
        if is_mapping(value):
            yield from value.items()
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
    yield from named.items()
