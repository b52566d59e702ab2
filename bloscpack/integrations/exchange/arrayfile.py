"""Copies of arrays to a file of another library: written part by part, and compared."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...exceptions import UnsupportedError
from ...filetypes.arraysource import ArraySource, SeveralArrays
from ...filetypes.copyjob import ByteCount, Conversion, CopyJob, new_copy, refuse_difference
from ...filetypes.inventory import attributes
from ...storage.file import open_source
from ...storage.folder.filelist import ListedFolder
from .arraylabels import canonical, is_same, labels_of
from .library import refuse_inner

_CHUNK_NBYTES = 1 << 20

Add: TypeAlias = Callable[[int], None]
Open: TypeAlias = Callable[..., AbstractContextManager[ArraySource]]
OpenSeveral: TypeAlias = Callable[..., AbstractContextManager[SeveralArrays]]
Write: TypeAlias = Callable[[str, ArraySource, CopyJob, Add], None]


def copy_array(
    kind: str,
    source: ArraySource,
    job: CopyJob,
    write: Write,
    open_copy: Open,
    *,
    keeps: Collection[str] | None = None,
    options: Collection[str] = (),
    is_folder: bool = False,
    names: bool = False,
) -> Conversion:
    """Write a copy of an array, compare it with its source, and move it to its place.

    Parameters
    ----------
    kind : str
        Name of the type.
    source : ArraySource
        The array.
    job : CopyJob
        Destination and options.
    write : callable
        Takes the path, the source, the job and a function to call with the bytes of each part, and
        writes the copy.
    open_copy : callable
        Opens the copy, as a source of this type.
    keeps : collection of str, optional
        Names of the attrs that the type can hold; all by default.
    options : collection of str
        Options of chunks that the type has.
    is_folder : bool
        Whether the copy is a folder.
    names : bool
        Whether arrays in a file have names, so that the destination may be ``path::/name``.

    Raises
    ------
    ValueError
        An option is not for this type.
    UnsupportedError
        The type cannot hold the name of the array.
    FormatError
        The source is damaged, or the copy differs from it.
    """
    refuse_our_options(job, kind, options)
    if job.inner and not names:
        refuse_inner(job.inner, kind)
    lost = [] if keeps is None else [key for key in source.attrs if key not in keeps]
    job.leave_out(*attributes(lost, "the array"))
    kept = {key: value for key, value in source.attrs.items() if key not in lost}
    source = _canonical(source._replace(attrs=kept))
    if names and not job.inner:
        _check_name(kind, source, job.name)
    count = ByteCount(job, source.nbytes)
    with new_copy(job, is_folder=is_folder) as temporary:
        write(temporary, source, job, count.add)
        if job.verify:
            with (
                closing((ListedFolder if is_folder else open_source)(temporary)) as opened,
                open_copy(opened, job.inner, nthreads=job.nthreads) as copy,
            ):
                refuse_difference(_difference(source, copy, job.inner, count.add), job.name)
    return Conversion(kind, 1, source.nrows, 0, lossless=True)


def copy_several_arrays(
    kind: str,
    arrays: SeveralArrays,
    job: CopyJob,
    write: Write,
    write_attrs: Callable[[str, Mapping[str, Any]], None],
    open_copies: OpenSeveral,
    *,
    options: Collection[str] = (),
    is_folder: bool = False,
) -> Conversion:
    """Write a copy of named arrays, compare it with its source, and move it to its place.

    Parameters
    ----------
    kind, job, options, is_folder : as for `copy_array`
    arrays : SeveralArrays
        The arrays.
    write : callable
        As for `copy_array`; adds the array that ``job.inner`` names to the copy.
    write_attrs : callable
        Takes the path and the attributes of all arrays, and begins the copy with them.
    open_copies : callable
        Opens all arrays of the copy.

    Raises
    ------
    ValueError
        An option is not for this type.
    UnsupportedError
        The type cannot hold the name of an array, or two arrays in the same group have different
        coordinates of one name.
    FormatError
        A source is damaged, or the copy differs from it.
    """
    refuse_our_options(job, kind, options)
    steps = ArrayCount(job, len(arrays.names))
    coords: dict[tuple[str, str], tuple[str, Any]] = {}
    nrows = 0
    with new_copy(job, is_folder=is_folder) as temporary:
        write_attrs(temporary, arrays.attrs)
        for name in arrays.names:
            if any(part in ("", ".", "..") for part in name.split("/")) or set(name) & set("\0\\"):
                raise UnsupportedError(f"{kind} cannot hold an array of the name {name!r:.80}").at(
                    path=job.name
                )
            with arrays.open(name) as source:
                source = _canonical(source)
                _check_coords(name, source, coords, job.name)
                write(temporary, source, replace(job, inner=name), lambda _: None)
                nrows += source.nrows
            steps.add()
        if job.verify:
            with (
                closing((ListedFolder if is_folder else open_source)(temporary)) as opened,
                open_copies(opened, nthreads=job.nthreads) as copies,
            ):
                same = sorted(copies.names) == sorted(arrays.names)
                refuse_difference(None if same else "the names of the arrays", job.name)
                same = is_same(arrays.attrs, copies.attrs, ())
                refuse_difference(None if same else "the attrs of all arrays", job.name)
                for name in arrays.names:
                    with arrays.open(name) as source, copies.open(name) as copy:
                        what = _difference(_canonical(source), copy, name, lambda _: None)
                        refuse_difference(what and f"array {name!r:.80}: {what}", job.name)
                    steps.add()
    return Conversion(kind, len(arrays.names), nrows, 0, lossless=True)


class ArrayCount:
    """Progress by arrays; comparing one counts as much as writing it."""

    def __init__(self, job: CopyJob, count: int) -> None:
        self._progress = job.progress
        self._total = count * (2 if job.verify else 1)
        self._done = 0

    def add(self) -> None:
        """Count an array."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def _canonical(source: ArraySource) -> ArraySource:
    return source._replace(attrs=canonical(source.attrs, source.rows.shape))


def _check_name(kind: str, source: ArraySource, where: str) -> None:
    """Refuse a name that would be another place in the copy."""
    labels = labels_of(source.attrs, source.rows.shape)
    if labels is not None and ("/" in labels.name or labels.name in (".", "..")):
        raise UnsupportedError(
            f"{kind} cannot hold an array of the name {labels.name!r:.80}; give its place in the "
            "file, as FILE::/NAME"
        ).at(path=where)


def _difference(source: ArraySource, copy: ArraySource, inner: str, add: Add) -> str | None:
    """Return a description of the first difference of a copy, or None."""
    what = source.difference(copy, add)
    # The place in the copy is the new name.
    named = {"name": inner.rpartition("/")[2]} if inner else {}
    one, two = source.attrs | named, copy.attrs | named
    if what is None and not is_same(one, two, source.rows.shape):
        what = "the attrs"
    return what


def _check_coords(
    name: str, source: ArraySource, found: dict[tuple[str, str], tuple[str, Any]], where: str
) -> None:
    """Refuse coordinates that an array of the same group has with other values.

    `found` has those of the arrays before, and gets those of this one.
    """
    labels = labels_of(source.attrs, source.rows.shape)
    described = source.attrs["coords"] if labels and labels.coords else {}
    for key, value in described.items():
        place = name.rpartition("/")[0], key
        other, expected = found.setdefault(place, (name, value))
        if value != expected:
            raise UnsupportedError(
                f"arrays {other!r:.80} and {name!r:.80} have different coordinates {key!r:.80}: "
                "copy each to a file of its own, by FILE::/NAME"
            ).at(path=where)


def refuse_our_options(job: CopyJob, kind: str, options: Collection[str] = ()) -> None:
    """Raise ValueError if an option is given that only clips or our arrays have.

    `options` are those of chunks that the type `kind` has.
    """
    job.refuse_options_of_clips({"codec"})
    if job.keepbits is not None or job.coding or job.chunking.keys() - set(options):
        raise ValueError(
            f"keepbits, codec, clevel, shuffle, access{'' if 'chunks' in options else ', chunks'} "
            f"are for a Bloscpack file, not for {kind}"
        )


def chunks_for(source: ArraySource, job: CopyJob) -> tuple[int, ...] | None:
    """Return the chunks of a copy: those of the options, of the source, or rows of about 1 MiB.

    None for an array without items or axes, which has no chunks.
    """
    shape: tuple[int, ...] = source.rows.shape
    if not shape or not source.nbytes:
        return None
    given = job.chunking.get("chunks")
    if given is not None:
        if isinstance(given, str) or not np.all(np.array(given) > 0):
            raise ValueError(f"chunks must be positive numbers, not {given!r:.80}")
        source = source._replace(chunks=given, is_fortran=False)
    chunks = source.chunk_shape
    if len(chunks) != len(shape):
        raise ValueError(f"chunks {chunks} have {len(chunks)} axes, and the array {len(shape)}")
    if source.chunks is None:
        room = max(1, _CHUNK_NBYTES // source.rows.dtype.itemsize)
        sides = []
        for length in reversed(shape):
            sides.append(min(length, room))
            room = max(1, room // length)
        chunks = tuple(reversed(sides))
    return tuple(min(one, length) for one, length in zip(chunks, shape, strict=True))
