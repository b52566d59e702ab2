"""Writer of arrays with their labels, in groups: what HDF5, netCDF and Zarr files share."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..plugin import (
    OURS,
    UNLIMITED,
    Add,
    AnyArray,
    ArraySource,
    ArrayWriter,
    Coord,
    CopyJob,
    Labels,
    SeveralArrays,
    UnsupportedError,
    beside,
    chunks_for,
    is_array_of,
    is_same_coord,
    labels_of,
    others_of,
)
from .arraytree import above
from .library import TargetFile, errors_of

# Attribute for attributes that a library does not give back, or by which it would decode items.
REST = "bloscpack"


class NewArray(NamedTuple):
    """An array to be created in a file.

    `hidden` are attrs with the names of labels that are none: they are stored as JSON.
    """

    name: str
    source: ArraySource
    labels: Labels | None
    attrs: dict[str, Any]
    chunks: tuple[int, ...] | None
    hidden: set[str]


class TreeWriter(ArrayWriter):
    """Base of the writers of each format.

    An array of a group and a coordinate of others can be one array of the file, if they are equal.
    """

    what = ""  # the file, for messages

    def __init__(
        self, arrays: SeveralArrays, job: CopyJob, stream: TargetFile | None = None
    ) -> None:
        self.job, self._arrays, self._stream = job, arrays, stream
        self._names = frozenset(arrays.names)
        unlimited = arrays.attrs.get(UNLIMITED)
        self.unlimited = {*map(str, unlimited)} if isinstance(unlimited, list) else set()
        self._groups = {*split_groups(arrays.attrs)[1]}
        self._groups.update(each for name in arrays.names for each in above(name))
        self._coords: dict[str, tuple[str, Coord]] = {}  # by place, with the array that has it
        self.made: set[str] = set()  # places of arrays
        self.written: set[str] = set()  # places of coordinates

    def write_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Write the attributes of the file and its groups."""
        root, groups = split_groups(attrs)
        for path, found in {"": root, **groups}.items():
            self._write_group(path, found)

    def _write_group(self, path: str, attrs: Mapping[str, Any]) -> None:
        """Write the attributes of a group, or with an empty path those of the file."""
        raise NotImplementedError

    def check(self, name: str, source: ArraySource) -> None:
        """Raise UnsupportedError if the file has no place for an array or its coordinates."""
        if around := self._names.intersection(above(name)):
            raise UnsupportedError(f"its name is inside of array {min(around)!r:.80}")
        labels = labels_of(source.attrs, source.rows.shape)
        if labels and "" in labels.dims:
            raise UnsupportedError("the name of an axis is empty, which means no name: rename it")
        coords = {beside(name, key): each for key, each in coords_of(labels).items()}
        for place, coord in coords.items():
            other, expected = self._coords.get(place, (place, coord))
            if place in self._groups:
                raise UnsupportedError(f"a group has the name of its coordinates {place!r:.80}")
            if not is_same_coord(coord, expected):
                raise UnsupportedError(
                    f"arrays {other!r:.80} and {name!r:.80} have different coordinates "
                    f"{place.rpartition('/')[2]!r:.80}: copy each to a file of its own, by "
                    "FILE::/NAME"
                )
            if place in self._names and not is_array_of(self._arrays, place, coord):
                raise UnsupportedError(f"its coordinates differ from the array {place!r:.80}")
        with errors_of(f"{self.what} cannot hold the array", None, UnsupportedError):
            self._refuse(name, source, labels)
        self._coords.update((place, (name, coord)) for place, coord in coords.items())

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        """Write an array, which `check` has accepted, unless it is there as a coordinate."""
        if name in self.written:
            add(source.nbytes)
            return
        labels = labels_of(source.attrs, source.rows.shape)
        attrs = dict(others_of(source.attrs, source.rows.shape))
        hidden = {k for k in OURS if not labels and k in attrs and attrs[k] is source.attrs.get(k)}
        chunks = chunks_for(source, self.job)
        with errors_of(f"{self.what} cannot hold the array", self.job.name, UnsupportedError):
            array = self._create(NewArray(name, source, labels, attrs, chunks, hidden))
        self.made.add(name)
        # Each chunk is written once: a ZIP file keeps every version.
        for place in source._replace(chunks=chunks).parts():
            part = source.rows.read(place)
            array[place] = self._encode(part)
            if self._stream:
                self._stream.check()
            add(part.nbytes)

    def _encode(self, part: AnyArray) -> AnyArray:
        """Return items in the form in which the library takes them."""
        return part

    def _refuse(self, name: str, source: ArraySource, labels: Labels | None) -> None:
        """Raise an error if the format cannot hold an array."""
        raise NotImplementedError

    def _create(self, new: NewArray) -> Any:
        """Create an array with its coordinates and attributes, and return it without items."""
        raise NotImplementedError


def coords_of(labels: Labels | None) -> dict[str, Coord]:
    """Return the coordinates in labels."""
    return labels.coords if labels else {}


def name_others(attrs: dict[str, Any], labels: Labels | None) -> None:
    """Name coordinates that are not those of an axis in the attribute of the CF conventions."""
    others = [key for key, coord in coords_of(labels).items() if coord.dims != (key,)]
    if others and "coordinates" not in attrs:
        attrs["coordinates"] = " ".join(others)


def split_groups(attrs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the attributes of the root of a file, and those of its groups by their paths."""
    root = {key: value for key, value in attrs.items() if key[:1] != "/"}
    return root, {key[1:]: attrs[key] for key in sorted(attrs.keys() - root.keys())}
