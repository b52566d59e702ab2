"""Copies of arrays to a file of any type: written part by part, and compared."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, closing, suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..array.axislabels import DEFAULT_NAME, NO_NAME, TYPES, Coord, is_same_coord
from ..exceptions import UnsupportedError
from ..storage.file import open_source
from ..storage.folder.filelist import ListedFolder
from .arraylabels import is_same, labels_of
from .arraysource import ArraySource, SeveralArrays
from .copyjob import Conversion, CopyJob, Tally, write_file
from .inventory import attributes, quoted

_CHUNK_NBYTES = 1 << 20

Add: TypeAlias = Callable[[int], None]


class ArrayWriter:
    """Base of the writers of arrays to a file, which holds any array, and no attributes of all."""

    def write_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Write the attributes of the file, and under ``"/GROUP"`` those of groups."""

    def check(self, name: str, source: ArraySource) -> None:
        """Raise UnsupportedError for an array that the file cannot hold, before it is written."""

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        """Write an array; call `add` with the bytes of each part."""
        raise NotImplementedError


def is_safe(name: str) -> bool:
    """Return whether a name is a place in a file, which no part of it leaves."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") for part in parts) and not set(name) & set("\0\\")


def refuse_inner(inner: str, what: str) -> None:
    """Raise ValueError if an array is named in a file that has only one."""
    if inner:
        raise ValueError(f"{what} has one array; '::/{inner:.80}' names a part")


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
    has_groups: bool = True  # attributes of the file as "/GROUP" are those of a group

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
        copier = _ArrayCopier(self, self._named(arrays, job), job)
        tally = Tally(job, copier.total, of_bytes=copier.is_alone)
        is_folder = self.is_folder(job)
        job.check_target(is_folder=is_folder)
        write_file(arrays, copier, job, tally, is_folder=is_folder)
        return Conversion(self.kind, len(copier.written), tally.frames, 0)

    def _named(self, arrays: SeveralArrays, job: CopyJob) -> SeveralArrays:
        """Return arrays with the names and attributes that the file has.

        UnsupportedError if a name is not safe.
        """
        if arrays.nbytes is not None and self.place is not None:
            with arrays.open("") as source:
                name = job.inner or self.place(source)
                arrays = SeveralArrays.of(source, name)
            if "/" in name and not job.inner:
                raise _unsafe(self.kind, name).at(path=job.name)
        if self.has_groups:
            lost = {
                key
                for key, value in arrays.attrs.items()
                if key[:1] == "/" and not (isinstance(value, dict) and self.is_safe(key[1:]))
            }
            job.leave_out(*attributes(key for key in arrays.attrs if key in lost))
            attrs = {key: value for key, value in arrays.attrs.items() if key not in lost}
            arrays = arrays._replace(attrs=attrs)
        for name in arrays.names:
            if (name or arrays.nbytes is None) and not self.is_safe(name):
                raise _unsafe(self.kind, name).at(path=job.name)
        return arrays


class _ArrayCopier:
    """Writes arrays to a file, and compares them; see `copyjob.CopyWriter`."""

    lossless = True

    def __init__(self, form: ArrayFormat, arrays: SeveralArrays, job: CopyJob) -> None:
        self._form, self._arrays, self._job = form, arrays, job
        self.is_alone = arrays.nbytes is not None
        # Progress counts the bytes of one array, or several arrays.
        self.total = arrays.nbytes or len(arrays.names)
        self.written: set[str] = set()
        # Arrays and coordinates, which other arrays of their group may have in the copy.
        self._places = {*arrays.names}

    def write(self, path: str, tally: Tally) -> None:
        with self._form.writing(path, self._arrays, self._job) as writer:
            self._write_all(writer, tally)

    def _write_all(self, writer: ArrayWriter, tally: Tally) -> None:
        """Write all arrays that the file can hold."""
        writer.write_attrs(self._arrays.attrs)
        lost = {}
        for name in self._arrays.names:
            with self._arrays.open(name) as source:
                try:
                    writer.check(name, stored := self._stored(source, name))
                except UnsupportedError as err:
                    if self.is_alone:
                        err.at(path=self._job.name)
                        raise
                    lost[name] = f"array {quoted(name)}: {err}"
                else:
                    writer.write(name, stored, tally.advance if self.is_alone else _ignore)
                    self.written.add(name)
                    if isinstance(coords := stored.attrs.get("coords"), dict):
                        self._places.update(beside(name, key) for key in coords)
                    tally.add_frames(stored.nrows, is_image=False)
            if not self.is_alone:
                tally.advance()
        self._leave_out(lost)
        if lost and not self.written:
            what = f"{self._form.kind}: nothing can be copied: {'; '.join(lost.values())}"
            raise UnsupportedError(what).at(path=self._job.name)

    def _leave_out(self, lost: Mapping[str, str]) -> None:
        """List arrays by their texts, each with those coordinates that no other array has."""
        kept: dict[str, Coord] = {}
        for name in self.written if lost else ():
            kept |= self._coords(name)
        for name, text in lost.items():
            self._job.leave_out(text)
            for place, coord in self._coords(name).items():
                is_array = place in self.written and is_array_of(self._arrays, place, coord)
                if not is_array and not (place in kept and is_same_coord(coord, kept[place])):
                    key = place[name.rfind("/") + 1 :]
                    self._job.leave_out(f"coordinates {quoted(key)} of {quoted(name)}")

    def _coords(self, name: str) -> dict[str, Coord]:
        """Return the coordinates of an array in the form of the copy, by their places."""
        with self._arrays.open(name) as source:
            with suppress(UnsupportedError):
                source = self._stored(source, name)
            labels = labels_of(source.attrs, source.rows.shape)
        return {beside(name, key): each for key, each in labels.coords.items()} if labels else {}

    def _stored(self, source: ArraySource, name: str) -> ArraySource:
        return self._form.stored(source, self._job, "the array" if self.is_alone else quoted(name))

    def difference(self, path: str, tally: Tally) -> str | None:
        open_copy = ListedFolder if self._form.is_folder(self._job) else open_source
        with (
            closing(open_copy(path)) as opened,
            self._form.open(opened, "", nthreads=self._job.nthreads) as copies,
        ):
            # An array that has the coordinates of another one may be a part of it.
            if not set(copies.names) <= self.written:
                return "the names of the arrays"
            if not is_same(self._arrays.attrs, copies.attrs, ()):
                return "the attrs of all arrays"
            for name in self._arrays.names:
                what = self._difference_of(name, copies, tally) if name in self.written else None
                if what is not None:
                    return what if self.is_alone else f"array {name!r:.80}: {what}"
                if not self.is_alone:
                    tally.advance()
        return None

    def _difference_of(self, name: str, copies: SeveralArrays, tally: Tally) -> str | None:
        with self._arrays.open(name) as source, copies.open(name) as copy:
            stored = self._stored(source, name)
            what = stored.difference(copy, tally.advance if self.is_alone else _ignore)
            if what is None and not _has_attrs(stored, copy, name, self._places):
                what = "the attrs"
            return what


def _unsafe(kind: str, name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{kind} cannot hold an array of the name {name!r:.80}; give its place in the file, as "
        "FILE::/NAME"
    )


def without_attrs(source: ArraySource, job: CopyJob, of: str) -> ArraySource:
    """Return an array for a type of file that has no place for attributes."""
    job.leave_out(*attributes(source.attrs, of))
    return source._replace(attrs={})


def is_array_of(arrays: SeveralArrays, place: str, coord: Coord) -> bool:
    """Return whether an array is equal to a coordinate, and has no coordinates."""
    with arrays.open(place) as array:
        rows, labels = array.native().rows, labels_of(array.attrs, array.rows.shape)
        shape, dtype = coord.values.shape, coord.values.dtype
        if labels is None or labels.coords or (rows.shape, rows.dtype) != (shape, dtype):
            return False
        return is_same_coord(coord, Coord(labels.dims, rows.read(()), labels.attrs))


def beside(name: str, key: str) -> str:
    """Return the place of a coordinate or a dimension of an array: its group."""
    return name[: name.rfind("/") + 1] + key


def _ignore(nbytes: int) -> None:
    """Count nothing: of several arrays, whole ones are counted."""


def _has_attrs(source: ArraySource, copy: ArraySource, name: str, places: Collection[str]) -> bool:
    """Return whether a copy has the attrs of its source, apart from what its place gives it."""
    # Text is of variable length in HDF5 in any case.
    attrs, expected = (
        {key: value for key, value in each.attrs.items() if (key, value) != (TYPES, {"": "str"})}
        for each in (copy, source)
    )
    # A number that is not of the type of the items, which the file has beside them.
    if TYPES not in expected:
        attrs.pop(TYPES, None)
    last = name.rpartition("/")[2]
    # Its place in the file is its name.
    if name and attrs.get("name", last) in (last, NO_NAME):
        attrs.pop("name", None)
        attrs |= {"name": expected["name"]} if "name" in expected else {}
    # Arrays that it names are coordinates there.
    listed = str(expected.get("coordinates", "")).split()
    if "coordinates" not in attrs and listed and {*listed} <= {*attrs.get("coords", ())}:
        attrs["coordinates"] = expected["coordinates"]
    # It may have coordinates from others of its group.
    wanted, found = expected.get("coords", {}), attrs.get("coords")
    if isinstance(found, dict) and isinstance(wanted, dict):
        attrs["coords"] = {
            key: each
            for key, each in found.items()
            if key in wanted or beside(name, key) not in places
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
