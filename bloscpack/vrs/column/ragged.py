"""Columns with rows of different lengths: one array of all values, and the offset of each row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ...plugin import AnyArray
from ..format.description import decode_text, encode_text

Offsets = NDArray[np.int64]


def _row(index: int, nrows: int) -> int:
    if not -nrows <= index < nrows:
        raise IndexError(f"row {index} of {nrows}")
    return index % nrows


def joined(pieces: Sequence[memoryview | bytes]) -> tuple[Offsets, NDArray[np.uint8]]:
    """Return the offset of each piece, (N + 1,), and the bytes of all pieces."""
    ends = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(piece) for piece in pieces], out=ends[1:])
    # A bytearray, so that the column can be written to, like those that are gathered.
    return ends, np.frombuffer(bytearray().join(pieces), np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Strings:
    """Array of strings, stored as their joined bytes.

    Attributes
    ----------
    offsets : ndarray of int64, shape (N + 1,)
        String k is bytes ``offsets[k]`` to ``offsets[k + 1]``.
    data : ndarray of uint8
        As stored, normally UTF-8.

    Notes
    -----
    ``strings[k]`` is a str, with surrogate escapes for bytes that are not UTF-8. A slice is a
    `Strings` that shares `data`.
    """

    offsets: Offsets
    data: NDArray[np.uint8]

    @classmethod
    def pack(cls, texts: list[str]) -> "Strings":
        """Pack the strings of a list."""
        return cls(*joined([encode_text(text) for text in texts]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Strings": ...
    def __getitem__(self, index: int | slice) -> "str | Strings":
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise ValueError(f"slice of strings: the step must be 1, not {step}")
            return Strings(self.offsets[start : max(start, stop) + 1], self.data)
        k = _row(index, len(self))
        return decode_text(self.data[self.offsets[k] : self.offsets[k + 1]].tobytes())

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def tolist(self) -> list[str]:
        """Return all strings as a list."""
        first = int(self.offsets[0])
        data = self.data[first : self.offsets[-1]].tobytes()
        ends = (self.offsets - first).tolist()
        return [decode_text(data[a:b]) for a, b in pairwise(ends)]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Rows of different numbers of values.

    Attributes
    ----------
    offsets : ndarray of int64, shape (N + 1,)
        Row k is values ``offsets[k]`` to ``offsets[k + 1]``.
    values : ndarray or Strings
        Values of all rows; points and matrices have shape ``(n, 3)`` or ``(n, 3, 3)``.
    keys : Strings or None
        Key of each value, if the rows are maps.

    Notes
    -----
    ``ragged[k]`` is row k: a view of `values`, a list of strings, or a dict for maps.
    """

    offsets: Offsets
    values: "AnyArray | Strings"
    keys: Strings | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Any:
        k = _row(index, len(self))
        part = slice(int(self.offsets[k]), int(self.offsets[k + 1]))
        values = self.values[part]
        row: Any = values.tolist() if isinstance(values, Strings) else values
        return row if self.keys is None else dict(zip(self.keys[part].tolist(), row, strict=True))

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    @property
    def lengths(self) -> Offsets:
        """Number of values in each row, shape (N,)."""
        return np.diff(self.offsets)
