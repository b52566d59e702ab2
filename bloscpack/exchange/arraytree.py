"""Arrays and groups of a file of another library, as sources of a copy with all their labels.

A reader describes each array with its attributes and the names of its axes. An array that has the
coordinates of others, and fits into their attrs as a whole, becomes part of them; every other one
is an array of its own. Everything that does not find a place is in the inventory.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ..plugin import (
    DEFAULT_NAME,
    NO_NAME,
    UNLIMITED,
    ArraySource,
    Coord,
    Inventory,
    NotFoundError,
    Region,
    Rows,
    SeveralArrays,
    UnsupportedError,
    attribute,
    beside,
    default_dims,
    packed_attrs,
    plain_value,
    quoted,
    types_of,
)
from .library import chosen

_MAX_COORD_NBYTES = 64 << 20
# A copy of an array that was hardly written would take hours, and fill the disk with fill values.
_MAX_UNWRITTEN_NBYTES = 16 << 30
_MOST_PER_STORED_BYTE = 1 << 20  # of zeros in large chunks
_MAX_TEXT_NBYTES = 1 << 30
# By its size, parts of text are chosen before the longest one is known.
_USUAL_TEXT = np.dtype("U64")


@dataclass(slots=True)
class Node:
    """Array in a file.

    Attributes
    ----------
    path : str
        Its name, behind those of its groups.
    dims : sequence of str, optional
        Names of its axes.
    attrs : mapping
        Attributes as the library has them, without those of its own conventions.
    rows : Rows, optional
        The items; None if an array cannot have them, for the reason `why`.
    chunks : tuple of int, optional
        Shape of its chunks.
    coords : list of str
        Paths of arrays that may be its coordinates.
    lost : list of str
        Texts for parts that the file has for it, and a copy has not.
    rest : dict
        Attributes that are stored as JSON.
    """

    path: str
    attrs: Mapping[str, Any]
    rows: Rows | None
    dims: Sequence[str] | None = None
    chunks: Any = None
    why: str = ""
    coords: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    rest: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    @property
    def group(self) -> str:
        """Path of its group."""
        return self.path.rpartition("/")[0]


def add_text(node: Node, shape: tuple[int, ...], read: Callable[[Region], Any]) -> None:
    """Give a node the items of an array of text, as long as the longest, or why it has none.

    `read` returns the text of a part.
    """
    longest = 1
    for place in ArraySource(Rows(shape, _USUAL_TEXT, read)).parts():
        try:
            texts = np.asarray(read(place), object).ravel().tolist()
        except UnicodeDecodeError:
            node.why = "it has text that is not UTF-8"
            return
        longest = max(longest, *(len(text) for text in texts if isinstance(text, str)))
        if 4 * longest * prod(shape) > _MAX_TEXT_NBYTES:
            node.why = f"it has text of {longest} characters; with each as long, it exceeds 1 GiB"
        if not all(isinstance(text, str) and not text.endswith("\0") for text in texts):
            node.why = "it has items beside text, or text that ends with a null character"
        if node.why:
            return
    dtype = np.dtype(f"U{longest}")
    node.rows = Rows(shape, dtype, lambda place: np.asarray(read(place)).astype(dtype))


def unwritten(nbytes: int, stored: Callable[[], int]) -> str:
    """Return why an array is not copied of which hardly anything was written; empty if it is.

    `stored` returns the size of what was written, in bytes.
    """
    if nbytes <= _MAX_UNWRITTEN_NBYTES or nbytes <= _MOST_PER_STORED_BYTE * (found := stored()):
        return ""
    return (
        f"it has {nbytes} bytes, of which hardly any were written ({found} are stored); read the "
        "part that was, and save it by bloscpack.save"
    )


class ArrayTree:
    """All arrays of a file, in groups.

    Parameters
    ----------
    what, where : str
        The file, for messages, and its path.
    """

    def __init__(self, what: str, where: str | None) -> None:
        self.inventory = Inventory()
        self.groups: dict[str, Mapping[str, Any]] = {}  # attributes by path; "" is the root
        self.unlimited: list[str] = []  # paths of dimensions without a limit
        self._what, self._where = what, where
        self._nodes: dict[str, Node] = {}
        self._entries: dict[str, Coord | None] = {}
        self._folded: set[str] = set()

    def add(self, node: Node) -> None:
        """Add an array."""
        self._nodes[node.path] = node

    def add_unlimited(self, place: str, length: int) -> None:
        """Add a dimension without a limit; in a netCDF copy, any without items is one."""
        if length:
            self.unlimited.append(place)
        else:
            self.inventory.add(_unlimited(place))

    def arrays(self, inner: str) -> SeveralArrays:
        """Return the array `inner`, or all arrays that are not coordinates of others.

        Raises
        ------
        NotFoundError
            The file does not have this array.
        UnsupportedError
            Its items cannot be read, or there are arrays and none of them can.
        """
        self._fold()
        names = self._names()
        if inner:
            inner = inner if inner in self._nodes else chosen(inner, names, self._what, self._where)
            node = self._nodes[inner]
            source = self._opened(node, is_alone=True)
            places = [beside(node.path, each) for each in node.dims or ()]
            lost = [_unlimited(each) for each in places if each in self.unlimited]
            return SeveralArrays.of(source._replace(left_out=(*source.left_out, *lost)))
        for path, node in self._nodes.items():
            if path not in self._folded and node.rows is None:
                self.inventory.add(f"array {quoted(path)}: {node.why}")
        root = self.groups.get("", {})
        nested = {key for key in root if isinstance(key, str) and key.startswith("/")}
        self.inventory.add(*(attribute(key) for key in nested))
        own = {key: value for key, value in root.items() if key not in nested}
        attrs = self._plain("the file", own, self.inventory)
        within = {path[:at] for path in names for at, each in enumerate(path) if each == "/"}
        for path, found in self.groups.items():
            plain = self._plain(f"group {quoted(path)}", found, self.inventory) if path else {}
            if path and (plain or path not in within):
                attrs[f"/{path}"] = plain
        if self.unlimited:
            attrs[UNLIMITED] = sorted(self.unlimited)
        if not names and self._nodes:
            raise UnsupportedError(
                f"{self._what}: nothing can be copied: {'; '.join(self.inventory.left_out)}"
            ).at(path=self._where)

        def read(name: str) -> AbstractContextManager[ArraySource]:
            if name not in self._nodes:
                raise NotFoundError(f"no array {quoted(name)} in {self._what}").at(path=self._where)
            return nullcontext(self._opened(self._nodes[name], is_alone=len(names) == 1))

        return SeveralArrays(tuple(names), read, attrs, self.inventory.left_out)

    def _names(self) -> list[str]:
        return [
            path
            for path, node in self._nodes.items()
            if node.rows is not None and path not in self._folded
        ]

    def _fold(self) -> None:
        """Find the arrays that are parts of others, as their coordinates."""
        coords = {at: self._coords(each, is_alone=False) for at, each in self._nodes.items()}
        used = {each for found in coords.values() for each in found.values()}
        self._folded = {
            path
            for host, found in coords.items()
            if host not in used and self._nodes[host].rows is not None
            for path in found.values()
            if self._nodes[path].group == self._nodes[host].group
        }

    def _coords(self, node: Node, *, is_alone: bool) -> dict[str, str]:
        """Return the paths of the coordinates of an array by their names.

        Beside other arrays, it has those of its axes in a group above without a copy of its own.
        """
        if node.dims is None or node.rows is None or _has_odd_dims(node.dims, node.rows.shape):
            return {}
        prefix = node.group and f"{node.group}/"
        listed = str(node.attrs.get("coordinates", "")).split()
        others = [prefix + each for each in listed]
        index = [prefix + each for each in node.dims if not self._is_other(prefix + each, node)]
        found: dict[str, str] = {}
        for path in dict.fromkeys((*index, *node.coords)):
            is_above = path not in index and self._is_axis(path, node)
            if self._is_coord(path, node) and (is_alone or not is_above):
                found.setdefault(self._nodes[path].name, path)
        if listed and all(self._is_coord(path, node) for path in others):
            found |= {self._nodes[path].name: path for path in others}
        return found

    def _is_other(self, path: str, node: Node) -> bool:
        """Return whether an array has only the name of an axis, to which another is attached."""
        coord = self._nodes.get(path)
        if coord is None or path in node.coords:
            return False
        attached = {each for each in node.coords if each.rpartition("/")[2] == coord.name}
        return bool(attached) and not attached & {*coord.coords}

    def _is_coord(self, path: str, node: Node) -> bool:
        coord = self._nodes.get(path)
        if coord is None or coord.name == node.name or coord.dims is None:
            return False
        if node.dims is None or node.rows is None:
            return False
        if coord.name in node.dims and [*coord.dims] != [coord.name]:
            return False
        sizes = dict(zip(node.dims, node.rows.shape, strict=True))
        return (
            coord.rows is not None
            and coord.rows.shape == tuple(sizes.get(each, -1) for each in coord.dims)
            and len({*coord.dims}) == len(coord.dims)
            and self._entry(coord) is not None
        )

    def _is_axis(self, path: str, node: Node) -> bool:
        """Return whether an array of its own, here or above, is found by the name of an axis."""
        coord = self._nodes.get(path)
        dims, shape = node.dims or (), node.rows.shape if node.rows else ()
        return (
            coord is not None
            and coord.rows is not None
            and path == next((at for at in scope(node.path, coord.name) if at in self._nodes), "")
            and [*(coord.dims or ())] == [coord.name]
            and not _has_odd_dims(dims, shape)  # their names are left out
            and dict(zip(dims, shape, strict=True)).get(coord.name) == coord.rows.shape[0]
        )

    def _entry(self, coord: Node) -> Coord | None:
        """Return a coordinate for the attrs of arrays; None if it does not fit."""
        if coord.path not in self._entries:
            self._entries[coord.path] = self._new_entry(coord)
        return self._entries[coord.path]

    def _new_entry(self, coord: Node) -> Coord | None:
        if coord.rows is None or coord.rows.dtype.kind == "S":
            return None
        if coord.rows.nbytes > _MAX_COORD_NBYTES:
            return None
        inventory = Inventory()
        attrs = self._plain("", coord.attrs, inventory)
        if inventory.left_out:
            return None
        values = coord.rows.read(())
        is_held = values.dtype.kind in "biufcmM" and values.dtype.char not in "gG"
        if values.dtype.kind == "U":
            with suppress(UnicodeEncodeError):
                "".join(values.ravel().tolist()).encode()
                is_held = True
        attrs |= types_of(coord.attrs, values.dtype) | coord.rest
        return Coord(tuple(coord.dims or ()), values, attrs) if is_held else None

    def _plain(self, of: str, attrs: Mapping[str, Any], inventory: Inventory) -> dict[str, Any]:
        """Return attributes as JSON values; those that are none stay in the inventory."""
        found = {}
        inventory.add(*(attribute(key, of) for key in attrs))
        for key, value in attrs.items():
            try:
                plain = plain_value(value)
            except (TypeError, ValueError):
                continue
            if isinstance(key, str):  # else bytes that are not UTF-8
                found[key] = plain
                inventory.carry(attribute(key, of))
        return found

    def _opened(self, node: Node, *, is_alone: bool) -> ArraySource:
        rows, inventory = node.rows, Inventory()
        of = quoted(node.path) if node.path else "the array"
        if rows is None:
            raise UnsupportedError(f"{self._what}: {of}: {node.why}").at(path=self._where)
        inventory.add(*node.lost)
        coords = self._coords(node, is_alone=is_alone)
        for path in coords.values():
            inventory.add(*self._nodes[path].lost)
        carried = {node.name, *coords}
        missing = [
            path
            for path in node.coords
            if path.rpartition("/")[2] not in carried and not self._is_axis(path, node)
        ]
        inventory.add(*(f"scale {quoted(path)} of {of}" for path in missing))
        attrs = self._plain(of, node.attrs, inventory) | types_of(node.attrs, rows.dtype)
        others = [key for key, at in coords.items() if [*(self._nodes[at].dims or ())] != [key]]
        if others and attrs.get("coordinates") == " ".join(others):  # a copy names them again
            del attrs["coordinates"]
        attrs = packed_attrs(attrs)
        name = node.name or DEFAULT_NAME
        dims = node.dims
        if dims is not None and _has_odd_dims(dims, rows.shape):
            inventory.add(f"names {[*dims]!r:.80} of the axes of {of}, whose lengths differ")
            dims = None
        is_default = dims is not None and _is_default(dims, rows.shape) and not coords
        if dims is not None and not (is_default and (name == DEFAULT_NAME or not is_alone)):
            entries = {key: self._entry(self._nodes[path]) for key, path in coords.items()}
            taken = name in dims or name in entries
            dims = default_dims(rows.shape) if is_default else [*dims]
            attrs |= {"name": NO_NAME if taken else name, "dims": dims, "coords": entries}
        rest = dict(node.rest)
        if isinstance(rest.get("coords"), dict) and "coords" in attrs:
            rest["coords"] = attrs["coords"] | rest["coords"]
        return ArraySource(
            rows, chunks=node.chunks, attrs=attrs | rest, left_out=inventory.left_out
        )


def _has_odd_dims(dims: Sequence[str], shape: tuple[int, ...]) -> bool:
    """Return whether axes of several lengths share a name."""
    return len({*zip(dims, shape, strict=True)}) != len({*dims})


def _unlimited(place: str) -> str:
    return f"unlimited length of dimension {quoted(place)}"


def above(name: str) -> Iterator[str]:
    """Yield the paths of all groups around a name."""
    while name := name.rpartition("/")[0]:
        yield name


def scope(name: str, key: str) -> Iterator[str]:
    """Yield the places of a dimension or its coordinate: the group of an array, and those above."""
    for group in (*above(name), ""):
        yield f"{group}/{key}" if group else key


def _is_default(dims: Sequence[str], shape: tuple[int, ...]) -> bool:
    """Return whether axes have no names but those that a file has for axes without names."""
    others = default_dims(shape, lambda _: -1)  # with their lengths
    return all(map(operator.contains, zip(default_dims(shape), others, strict=True), dims))
