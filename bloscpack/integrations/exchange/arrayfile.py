"""Copies of arrays to a file of another library: written part by part, and compared."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ...exceptions import UnsupportedError
from ...filetypes.arraysource import ArraySource, SeveralArrays
from ...filetypes.copyjob import Conversion, CopyJob, Count, new_copy, refuse_difference
from ...filetypes.inventory import attributes
from ...storage.file import open_source
from ...storage.folder.filelist import ListedFolder
from ..axislabels import DEFAULT_NAME, typed
from .arraylabels import canonical, is_same, labels_of, plain_value
from .library import refuse_inner

_CHUNK_NBYTES = 1 << 20

Add: TypeAlias = Callable[[int], None]
Open: TypeAlias = Callable[..., AbstractContextManager[ArraySource]]
OpenSeveral: TypeAlias = Callable[..., AbstractContextManager[SeveralArrays]]
Write: TypeAlias = Callable[[str, ArraySource, CopyJob, Add], None]


class ArrayWriter(Protocol):
    """Writes named arrays to a file."""

    def write_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Write the attributes of the file, and under ``"/GROUP"`` those of groups."""

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        """Write an array; call `add` with the bytes of each part."""


def split_groups(attrs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the attributes of the root of a file, and those of its groups by their paths."""
    keys = {key for key, value in attrs.items() if key[:1] == "/" and isinstance(value, dict)}
    root = {key: value for key, value in attrs.items() if key not in keys}
    return root, {key[1:]: attrs[key] for key in sorted(keys)}


class ArrayFormat(NamedTuple):
    """Type of file that holds arrays by name."""

    kind: str  # its name
    # Takes a path and a job, and returns a context manager with an `ArrayWriter`.
    writing: Callable[[str, CopyJob], AbstractContextManager[ArrayWriter]]
    open_several: OpenSeveral
    options: tuple[str, ...] = ()  # options of chunks that it has
    # Returns an array in the form in which the file gives it back.
    stored: Callable[[ArraySource], ArraySource] = lambda source: source
    is_safe: Callable[[str], bool] = lambda name: True


def copy_arrays(
    form: ArrayFormat,
    arrays: SeveralArrays,
    job: CopyJob,
    *,
    is_folder: bool = False,
    nbytes: int | None = None,
) -> Conversion:
    """Write a copy of named arrays, compare it with its source, and move it to its place.

    Parameters
    ----------
    form : ArrayFormat
        Type of the copy.
    arrays : SeveralArrays
        The arrays.
    job : CopyJob
        Destination and options.
    is_folder : bool
        Whether the copy is a folder.
    nbytes : int, optional
        Size of the arrays, to count bytes as progress; otherwise arrays are counted.

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
    refuse_our_options(job, form.kind, form.options)
    by_bytes = nbytes is not None
    count = Count(job, len(arrays.names) if nbytes is None else nbytes, of_bytes=by_bytes)
    add: Add = count.add if by_bytes else lambda _: None
    coords: dict[tuple[str, str], tuple[str, Any]] = {}
    nrows = 0

    def stored(source: ArraySource) -> ArraySource:
        source = form.stored(source)
        attrs = canonical(source.attrs, source.rows.shape)
        # A fill value of 1 is 1.0 if the items are floats.
        exact = {key: plain_value(each) for key, each in typed(attrs, source.rows.dtype).items()}
        return source._replace(attrs=attrs | exact)

    for name in arrays.names:
        if (name or not by_bytes) and not (is_safe(name) and form.is_safe(name)):
            raise _unsafe(form.kind, name).at(path=job.name)
    with new_copy(job, is_folder=is_folder) as temporary:
        with form.writing(temporary, job) as writer:
            writer.write_attrs(arrays.attrs)
            for name in arrays.names:
                with arrays.open(name) as source:
                    source = stored(source)
                    _check_coords(name, source, coords, job.name)
                    writer.write(name, source, add)
                    nrows += source.nrows
                if not by_bytes:
                    count.add()
        if job.verify:
            with (
                closing((ListedFolder if is_folder else open_source)(temporary)) as opened,
                form.open_several(opened, nthreads=job.nthreads) as copies,
            ):
                # An array that has the coordinates of another one may be a part of it in the copy.
                same = set(copies.names) <= set(arrays.names)
                refuse_difference(None if same else "the names of the arrays", job.name)
                same = is_same(arrays.attrs, copies.attrs, ())
                refuse_difference(None if same else "the attrs of all arrays", job.name)
                for name in arrays.names:
                    with arrays.open(name) as source, copies.open(name) as copy:
                        source = stored(source)
                        copy = _without_coords_of(arrays.names, name, source, copy)
                        what = _difference(source, copy, name, add)
                        where = "" if by_bytes else f"array {name!r:.80}: "
                        refuse_difference(what and where + what, job.name)
                    if not by_bytes:
                        count.add()
    return Conversion(form.kind, len(arrays.names), nrows, 0)


def copy_one(
    form: ArrayFormat, source: ArraySource, job: CopyJob, *, is_folder: bool = False, default: str
) -> Conversion:
    """Copy an array; without a place in the file it has its name, or `default`.

    Raises as `copy_arrays` does.
    """
    labels = labels_of(source.attrs, source.rows.shape)
    is_named = labels is not None and (default or labels.coords or labels.name != DEFAULT_NAME)
    name = job.inner or (labels.name if labels is not None and is_named else default)
    if "/" in name and not job.inner:
        raise _unsafe(form.kind, name).at(path=job.name)
    arrays = SeveralArrays((name,), lambda _: nullcontext(source), {})
    return copy_arrays(form, arrays, job, is_folder=is_folder, nbytes=source.nbytes)


def copy_array(
    kind: str,
    source: ArraySource,
    job: CopyJob,
    write: Write,
    open_copy: Open,
    *,
    keeps: Collection[str] | None = None,
) -> Conversion:
    """Copy an array to a file of one array, which has no names.

    Parameters
    ----------
    kind, source, job
        Name of the type, the array, and destination and options.
    write : callable
        Takes the path, the source, the job and a function to call with the bytes of each part, and
        writes the copy.
    open_copy : callable
        Opens the copy, as a source of this type.
    keeps : collection of str, optional
        Names of the attrs that the type can hold; all by default.

    Raises
    ------
    ValueError, FormatError
        As for `copy_arrays`.
    """
    if job.inner:
        refuse_inner(job.inner, kind)
    lost = [] if keeps is None else [key for key in source.attrs if key not in keeps]
    job.leave_out(*attributes(lost, "the array"))
    kept = {key: value for key, value in source.attrs.items() if key not in lost}

    class Writer:
        def __init__(self, path: str) -> None:
            self._path = path

        def write_attrs(self, attrs: Mapping[str, Any]) -> None:
            pass

        def write(self, name: str, source: ArraySource, add: Add) -> None:
            write(self._path, source, job, add)

    @contextmanager
    def open_several(opened: Any, *, nthreads: int | None) -> Iterator[SeveralArrays]:
        with open_copy(opened, "", nthreads=nthreads) as copy:
            yield SeveralArrays(("",), lambda _: nullcontext(copy), {})

    form = ArrayFormat(kind, lambda path, _: nullcontext(Writer(path)), open_several)
    source = source._replace(attrs=kept)
    arrays = SeveralArrays(("",), lambda _: nullcontext(source), {})
    return copy_arrays(form, arrays, job, nbytes=source.nbytes)


def _unsafe(kind: str, name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{kind} cannot hold an array of the name {name!r:.80}; give its place in the file, as "
        "FILE::/NAME"
    )


def is_safe(name: str) -> bool:
    """Return whether a name is a place in a file, which no part of it leaves."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") for part in parts) and not set(name) & set("\0\\")


def _without_coords_of(
    names: Collection[str], name: str, source: ArraySource, copy: ArraySource
) -> ArraySource:
    """Return a copy without the coordinates that it has only from other arrays of its group."""
    group = name.rpartition("/")[0]
    expected, found = source.attrs.get("coords", {}), copy.attrs.get("coords")
    if not isinstance(found, dict) or "dims" not in source.attrs:
        return copy
    kept = {
        key: each
        for key, each in found.items()
        if key in expected or (f"{group}/{key}" if group else key) not in names
    }
    return copy._replace(attrs=copy.attrs | {"coords": kept})


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
