"""Coordinates that are arrays of an archive: each stored once, for all arrays that have it."""

from collections.abc import Callable
from typing import Any

from ..array.attrs import plain
from ..array.axislabels import (
    COORDINATE,
    Coord,
    Labels,
    Store,
    as_json,
    as_text,
    is_same_coord,
)
from ..types import AnyArray
from .writer import ArchiveWriter


class CoordArrays:
    """Coordinates of the arrays of a new archive.

    Parameters
    ----------
    archive : ArchiveWriter
        The archive.
    write : callable
        Writes an array of a name with attrs to it.
    """

    def __init__(
        self, archive: ArchiveWriter, write: Callable[[str, AnyArray, dict[str, Any]], None]
    ) -> None:
        self._archive, self._write = archive, write
        self._found: dict[str, Coord] = {}

    def beside(self, host: str) -> Store:
        """Return a function that stores a coordinate of the array `host`, in its group."""
        group = host[: host.rfind("/") + 1]
        return lambda name, coord: self.add(group + name, coord)

    def add(self, name: str, coord: Coord) -> str | None:
        """Store a coordinate, unless it is stored already, and return its name.

        None if another array has this name, or numpy has no type for its text.
        """
        what = f"coords[{name!r:.80}].attrs"
        coord = coord._replace(attrs=as_json(what, dict(coord.attrs)))
        if name not in self._found:
            values = as_text(coord.values)
            if name in self._archive or values.dtype.kind in "OT":
                return None
            self._write(name, values, coord.array_attrs)
            self._found[name] = coord
        return name if is_same_coord(self._found[name], coord) else None

    def add_unused(self, name: str, coord: Coord) -> None:
        """Store a coordinate that no array has.

        Raises
        ------
        TypeError
            It would not be read back equal.
        """
        if self.add(name, coord) is None:
            raise TypeError(
                f"coords[{name!r:.80}] would not be read back equal; convert or drop it"
            )

    def note(self, name: str, array: Any) -> None:
        """Note an array that is stored under its own name, and may be a coordinate."""
        if array.attrs.get(COORDINATE) is True:
            labels = Labels.unpack(plain(array.attrs), array.shape)
            self._found[name] = Coord(labels.dims, array, labels.attrs)
