"""Names of samples and the ids derived from them, decoded on use.

The id of a sample is its name if no other sample has that name; otherwise the name, ``#`` and the
ordinal. Names that end in ``#`` and digits also get the ordinal, as they could equal another id.
"""

import operator
import re
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar, overload

import numpy as np

from ..plugin import IntArray
from .mp4.format import unpack_name, unpack_text

Item = TypeVar("Item", covariant=True)

# Number of names whose places are looked up together.
_BLOCK = 4096
# Number of entries that repr() shows.
_SHOWN = 8
_NUMBER = re.compile(r"#(0|[1-9][0-9]{0,18})\Z")


class NameTable:
    """The stored names, concatenated, of all samples of a file.

    Samples beyond `sizes` have no name; `nnames` is the number of those that have one.
    """

    def __init__(self, stored: bytes, sizes: IntArray, count: int) -> None:
        self._stored = stored
        self._ends: IntArray = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=self._ends[1:])
        self.nnames = len(sizes)
        self._count = count

    def __len__(self) -> int:
        return self._count

    def stored(self, index: int) -> bytes | None:
        """Return a name as stored, without its final NUL, or None."""
        if index >= self.nnames:
            return None
        return self._stored[self._ends.item(index) : self._ends.item(index + 1)].removesuffix(b"\0")

    def __getitem__(self, index: int) -> str | None:
        """Return a name as text, or None."""
        stored = self.stored(index)
        return None if stored is None else unpack_text(stored)

    def take(self, indices: range) -> Iterator[str | None]:
        """Iterate over the names of samples."""
        for first in range(0, len(indices), _BLOCK):
            block = np.array(indices[first : first + _BLOCK])
            # Samples without a name get an empty range at the end.
            starts = self._ends[np.minimum(block, self.nnames)].tolist()
            ends = self._ends[np.minimum(block + 1, self.nnames)].tolist()
            for index, start, end in zip(block.tolist(), starts, ends, strict=True):
                if index < self.nnames:
                    yield unpack_name(self._stored[start:end])
                else:
                    yield None


class IdTable:
    """The ids of all samples of a file, derived from their names.

    Holds 17 bytes per name: the sorted hash, the ordinal, and whether the name is unique.
    """

    def __init__(self, names: NameTable) -> None:
        self._names = names
        count = names.nnames
        # `hash` differs between processes. The table is built in each: it is never pickled.
        hashes = np.fromiter(map(hash, names.take(range(count))), np.int64, count)
        self._order: IntArray = np.argsort(hashes, kind="stable")
        self._hashes: IntArray = hashes[self._order]
        self._is_unique = np.ones(count, np.bool_)
        is_again = self._hashes[1:] == self._hashes[:-1]
        is_shared = np.zeros(count, np.bool_)
        is_shared[1:] = is_again
        is_shared[:-1] |= is_again
        self._find_shared(self._order[is_shared])

    def _find_shared(self, candidates: IntArray) -> None:
        """Find equal names among those with equal hashes, which are adjacent in `candidates`."""
        named: dict[str | None, int] = {}
        for first in range(0, len(candidates), _BLOCK):
            for index in candidates[first : first + _BLOCK].tolist():
                other = named.setdefault(self._names[index], index)
                if other != index:
                    self._is_unique[index] = self._is_unique[other] = False

    def __getitem__(self, index: int) -> str:
        """Return the id of a sample."""
        return self._id(index, self._names[index])

    def _id(self, index: int, name: str | None) -> str:
        if name and self._is_unique.item(index) and not _NUMBER.search(name):
            return name
        return f"{name or ''}#{index}"

    def take(self, indices: range) -> Iterator[str]:
        """Iterate over the ids of samples."""
        return map(self._id, indices, self._names.take(indices))

    def find(self, id_: object) -> int | None:
        """Return the sample with this id or this unique name, or None."""
        if not isinstance(id_, str) or not id_:
            return None
        number = _NUMBER.search(id_)
        if number is not None:
            index = int(number[1])
            if index < len(self._names) and self[index] == id_:
                return index
        wanted = hash(id_)
        first = int(np.searchsorted(self._hashes, wanted, side="left"))
        last = int(np.searchsorted(self._hashes, wanted, side="right"))
        found = self._order[first:last]
        for index in found[self._is_unique[found]].tolist():
            if self._names[index] == id_:
                return int(index)
        return None


class _Table(Protocol[Item]):
    def __getitem__(self, index: int, /) -> Item: ...
    def take(self, indices: range, /) -> Iterator[Item]: ...


class TableView(Sequence[Item]):
    """A table's entries for some samples of the file, indexed by position among these samples."""

    def __init__(self, table: "_Table[Item]", indices: range) -> None:
        self._table = table
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> "TableView[Item]": ...
    def __getitem__(self, index: int | slice) -> "Item | TableView[Item]":
        if isinstance(index, slice):
            return TableView(self._table, self._indices[index])
        return self._table[self._indices[index]]

    def __iter__(self) -> Iterator[Item]:
        return self._table.take(self._indices)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [repr(each) for each in self[:_SHOWN]]
        return f"[{', '.join(shown + ['...'] * (len(self) > _SHOWN))}]"
