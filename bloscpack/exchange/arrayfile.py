"""Copies of arrays to a file of any type: written part by part, and compared."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..array.axislabels import DEFAULT_NAME, NO_NAME, TYPES
from ..exceptions import UnsupportedError
from ..filetypes.arraysource import ArraySource, SeveralArrays
from ..filetypes.copyjob import Conversion, CopyJob, Count, new_copy, refuse_difference
from ..filetypes.inventory import attributes, quoted
from ..storage.file import open_source
from ..storage.folder.filelist import ListedFolder
from .arraylabels import is_same, labels_of
from .library import refuse_inner

_CHUNK_NBYTES = 1 << 20

Add: TypeAlias = Callable[[int], None]


class ArrayWriter(Protocol):
    """Writes arrays to a file."""

    def write_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Write the attributes of the file, and under ``"/GROUP"`` those of groups."""

    def check(self, name: str, source: ArraySource) -> None:
        """Raise UnsupportedError for an array that the file cannot hold, before it is written."""

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        """Write an array; call `add` with the bytes of each part."""


def is_safe(name: str) -> bool:
    """Return whether a name is a place in a file, which no part of it leaves."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") for part in parts) and not set(name) & set("\0\\")


def label_or(default: str) -> Callable[[ArraySource], str]:
    """Return a function that returns the name in the labels of an array, or `default`."""

    def place(source: ArraySource) -> str:
        labels = labels_of(source.attrs, source.rows.shape)
        is_named = labels is not None and (default or labels.coords or labels.name != DEFAULT_NAME)
        return labels.name if labels is not None and is_named else default

    return place


class ArrayFormat(NamedTuple):
    """Type of file that holds arrays."""

    kind: str  # its name
    # Takes an open source, the name of one array or "", and ``nthreads``.
    open: Callable[..., AbstractContextManager[SeveralArrays]]
    # Takes a path, the arrays and a job.
    writing: Callable[[str, SeveralArrays, CopyJob], AbstractContextManager[ArrayWriter]]
    # Returns an array in the form in which the file gives it back; the job notes what that loses.
    # Takes the array, the job and the name of the array for messages.
    stored: Callable[[ArraySource, CopyJob, str], ArraySource]
    # Returns the name of an array that has none; None if the file has no names.
    place: Callable[[ArraySource], str] | None = label_or("data")
    is_safe: Callable[[str], bool] = is_safe
    is_folder: Callable[[CopyJob], bool] = lambda job: False

    def copy(self, arrays: SeveralArrays, job: CopyJob) -> Conversion:
        """Write a copy of arrays, compare it with its source, and move it to its place.

        Several arrays are copied without those that the type cannot hold, which are left out.

        Raises
        ------
        UnsupportedError
            The type cannot hold the name of an array, or any of the arrays.
        FormatError
            A source is damaged, or the copy differs from it.
        """
        if self.place is None and job.inner:
            refuse_inner(job.inner, self.kind)
        arrays = self._named(arrays, job)
        by_bytes = arrays.nbytes is not None
        count = Count(job, arrays.nbytes or len(arrays.names), of_bytes=by_bytes)
        is_folder = self.is_folder(job)
        with new_copy(job, is_folder=is_folder) as temporary:
            with self.writing(temporary, arrays, job) as writer:
                writer.write_attrs(arrays.attrs)
                kept = dict(self._written(arrays, writer, job, count.add))
            if job.verify:
                with (
                    closing((ListedFolder if is_folder else open_source)(temporary)) as opened,
                    self.open(opened, "", nthreads=job.nthreads) as copies,
                ):
                    what = self._difference(arrays, copies, kept, job, count.add)
                    refuse_difference(what, job.name)
        return Conversion(self.kind, len(kept), sum(kept.values()), 0)

    def _written(
        self, arrays: SeveralArrays, writer: ArrayWriter, job: CopyJob, count: Add
    ) -> Iterator[tuple[str, int]]:
        """Write all arrays that the file can hold; yield their names and numbers of rows."""
        is_alone = arrays.nbytes is not None
        lost = []
        for name in arrays.names:
            with arrays.open(name) as source:
                try:
                    source = self.stored(source, job, _label(arrays, name))
                    writer.check(name, source)
                except UnsupportedError as err:
                    if is_alone:
                        err.at(path=job.name)
                        raise
                    lost.append(f"array {quoted(name)}: {err}")
                else:
                    writer.write(name, source, count if is_alone else _ignore)
                    yield name, source.nrows
            if not is_alone:
                count(1)
        job.leave_out(*lost)
        if lost and len(lost) == len(arrays.names):
            what = f"{self.kind}: nothing can be copied: {'; '.join(lost)}"
            raise UnsupportedError(what).at(path=job.name)

    def _difference(
        self,
        arrays: SeveralArrays,
        copies: SeveralArrays,
        kept: Collection[str],
        job: CopyJob,
        count: Add,
    ) -> str | None:
        """Return a description of the first difference of the arrays in a copy, or None."""
        # An array that has the coordinates of another one may be a part of it.
        if not set(copies.names) <= set(kept):
            return "the names of the arrays"
        if not is_same(arrays.attrs, copies.attrs, ()):
            return "the attrs of all arrays"
        is_alone = arrays.nbytes is not None
        names = frozenset(arrays.names)
        for name in arrays.names:
            if name in kept:
                with arrays.open(name) as source, copies.open(name) as copy:
                    source = self.stored(source, job, _label(arrays, name))
                    what = source.difference(copy, count if is_alone else _ignore)
                    if what is None and not _has_attrs(source, copy, name, names):
                        what = "the attrs"
                    if what is not None:
                        return what if is_alone else f"array {name!r:.80}: {what}"
            if not is_alone:
                count(1)
        return None

    def _named(self, arrays: SeveralArrays, job: CopyJob) -> SeveralArrays:
        """Return arrays with their names in the file; UnsupportedError if one is not safe."""
        if arrays.nbytes is not None and self.place is not None:
            with arrays.open("") as source:
                name = job.inner or self.place(source)
                arrays = SeveralArrays.of(source, name)
            if "/" in name and not job.inner:
                raise _unsafe(self.kind, name).at(path=job.name)
        for name in arrays.names:
            if (name or arrays.nbytes is None) and not self.is_safe(name):
                raise _unsafe(self.kind, name).at(path=job.name)
        return arrays


def _unsafe(kind: str, name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{kind} cannot hold an array of the name {name!r:.80}; give its place in the file, as "
        "FILE::/NAME"
    )


def without_attrs(source: ArraySource, job: CopyJob, of: str) -> ArraySource:
    """Return an array for a type of file that has no place for attributes."""
    job.leave_out(*attributes(source.attrs, of))
    return source._replace(attrs={})


def _label(arrays: SeveralArrays, name: str) -> str:
    return "the array" if arrays.nbytes is not None else quoted(name)


def _ignore(nbytes: int) -> None:
    """Count nothing: of several arrays, whole ones are counted."""


def _has_attrs(source: ArraySource, copy: ArraySource, name: str, names: Collection[str]) -> bool:
    """Return whether a copy has the attrs of its source, apart from what its place gives it."""
    # Text is of variable length in HDF5 in any case.
    attrs, expected = (
        {key: value for key, value in each.attrs.items() if (key, value) != (TYPES, {"": "str"})}
        for each in (copy, source)
    )
    group, _, last = name.rpartition("/")
    # Its place in the file is its name.
    if name and attrs.get("name", last) in (last, NO_NAME):
        attrs.pop("name", None)
        attrs |= {"name": expected["name"]} if "name" in expected else {}
    # It may have coordinates from other arrays of its group.
    wanted, found = expected.get("coords", {}), attrs.get("coords")
    if isinstance(found, dict) and isinstance(wanted, dict):
        attrs["coords"] = {
            key: each
            for key, each in found.items()
            if key in wanted or (f"{group}/{key}" if group else key) not in names
        }
    return is_same(expected, attrs, source.rows.shape)


def chunks_for(source: ArraySource, job: CopyJob) -> tuple[int, ...] | None:
    """Return the chunks of a copy: those of the options, of the source, or rows of about 1 MiB.

    None for an array without items or axes, which has no chunks.
    """
    shape: tuple[int, ...] = source.rows.shape
    if not shape or not source.nbytes:
        return None
    given = job.options.get("chunks")
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
