"""Payloads of records rebuilt from the columns of a store; the inverse of `clipcolumns`.

The plan in the store is not trusted: clips that are missing, or of another length or kind, raise
`FormatError`. Layout: docs/formats/vrs-store.md.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from ...plugin import AnyArray, FormatError, FrameStore, IntArray

_ENTRY = np.dtype("<u4")
# Blocks of values that are read at once if one record has many.
_READ_BLOCKS = 16

# Bytes of records: one array row, or one bytes object, for each.
Lane: TypeAlias = "AnyArray | list[bytes]"


def damaged(what: str) -> FormatError:
    """Return the error for a store whose recording is damaged."""
    return FormatError(f"recording in a frame store: {what}")


class StoredColumn:
    """Part of the payloads of a form of `nrows` records; base class."""

    def __init__(self, store: FrameStore, plan: Mapping[str, Any], nrows: int) -> None:
        self.id: str = text_of(plan, "id")
        self._clip = store[self.id]
        self._nrows = nrows
        if (self._clip.read_images([]) is not None) != isinstance(self, StoredImages):
            raise damaged(f"clip {self.id!r:.80}: images are needed, or not expected")

    @property
    def row_nbytes(self) -> int:
        """Approximate bytes per record."""
        raise NotImplementedError

    def read(self, first: int, last: int) -> Lane:
        """Return the bytes of records `first` to `last`, which is not included."""
        raise NotImplementedError


class StoredFixed(StoredColumn):
    """Rows of a clip, unchanged."""

    def __init__(self, store: FrameStore, plan: Mapping[str, Any], nrows: int) -> None:
        super().__init__(store, plan, nrows)
        if len(self._clip) != nrows:
            raise damaged(f"clip {self.id!r:.80} has {len(self._clip)} rows for {nrows} records")

    @property
    def row_nbytes(self) -> int:
        """Bytes per row."""
        return self._clip.dtype.itemsize * int(np.prod(self._clip.shape[1:]))

    def read(self, first: int, last: int) -> Lane:
        """Return the bytes of rows, uint8 (n, nbytes)."""
        return _as_bytes(self._clip.read(slice(first, last)), last - first)


class StoredPixels(StoredFixed):
    """Raw images, from their pixels and the bytes between and after them."""

    def __init__(self, store: FrameStore, plan: Mapping[str, Any], nrows: int) -> None:
        super().__init__(store, plan, nrows)
        self._rest = StoredFixed(store, {"id": text_of(plan, "rest")}, nrows)
        self._height = self._clip.shape[1] if len(self._clip.shape) > 1 else 0
        self._stride = count_of(plan, "stride")
        self._width = super().row_nbytes // max(1, self._height)
        if not 0 < self._width <= self._stride or (
            self._height * (self._stride - self._width) > self._rest.row_nbytes
        ):
            raise damaged(f"clip {self.id!r:.80}: rows of {self._stride} bytes do not fit")

    @property
    def row_nbytes(self) -> int:
        """Bytes per image."""
        return super().row_nbytes + self._rest.row_nbytes

    def read(self, first: int, last: int) -> Lane:
        """Return the bytes of images, uint8 (n, nbytes)."""
        count, height, stride, width = last - first, self._height, self._stride, self._width
        pixels = np.asarray(super().read(first, last)).reshape(count, height, width)
        rest = np.asarray(self._rest.read(first, last))
        raw = np.empty((count, self.row_nbytes), np.uint8)
        rows = raw[:, : height * stride].reshape(count, height, stride)
        behind = height * (stride - width)
        rows[:, :, :width] = pixels
        rows[:, :, width:] = rest[:, :behind].reshape(count, height, stride - width)
        raw[:, height * stride :] = rest[:, behind:]
        return raw


class StoredImages(StoredFixed):
    """JPEG and PNG images."""

    @property
    def row_nbytes(self) -> int:
        """Average bytes per image."""
        return self._clip.cbytes // max(1, self._nrows)

    def read(self, first: int, last: int) -> Lane:
        """Return the images."""
        return self._clip.read_images(slice(first, last)) or []


class StoredRagged(StoredColumn):
    """Values whose number varies by record."""

    def __init__(self, store: FrameStore, plan: Mapping[str, Any], nrows: int) -> None:
        super().__init__(store, plan, nrows)
        offsets = read_column(store, text_of(plan, "offsets"), np.dtype(np.int64), nrows + 1)
        shape = self._clip.shape
        if len(shape) < 2:
            raise damaged(f"clip {self.id!r:.80}: expected values in blocks")
        self._block = shape[1]
        self._item_nbytes = self._clip.dtype.itemsize * int(np.prod(shape[2:]))
        if offsets[0] or (np.diff(offsets) < 0).any() or offsets[-1] > shape[0] * shape[1]:
            raise damaged(f"clip {self.id!r:.80}: the offsets do not fit its values")
        self._offsets = offsets

    @property
    def row_nbytes(self) -> int:
        """Average bytes per record."""
        return int(self._offsets[-1]) * self._item_nbytes // max(1, self._nrows)

    def sizes(self, first: int, last: int) -> IntArray:
        """Return the bytes of each record, int64."""
        return np.diff(self._offsets[first : last + 1]) * self._item_nbytes

    def iter_bytes(self, row: int) -> Iterator[bytes]:
        """Yield the values of one record as bytes, in pieces."""
        at, end = (int(each) for each in self._offsets[row : row + 2])
        while at < end:
            block, start = divmod(at, self._block)
            last = min(block + _READ_BLOCKS, -(-end // self._block))
            taken = min(end, last * self._block) - at
            data = self._clip.read(slice(block, last)).tobytes()
            yield data[start * self._item_nbytes : (start + taken) * self._item_nbytes]
            at += taken

    def read(self, first: int, last: int) -> Lane:
        """Return the values of each record as bytes."""
        ends = self._offsets[first : last + 1]
        if ends[0] == ends[-1]:
            return [b""] * (last - first)
        block = int(ends[0]) // self._block
        blocks = self._clip.read(slice(block, -(-int(ends[-1]) // self._block)))
        data = blocks.tobytes()
        places = ((ends - block * self._block) * self._item_nbytes).tolist()
        return [data[at:end] for at, end in pairwise(places)]


class StoredIndex(StoredColumn):
    """Index of the variable pieces, rebuilt from their lengths."""

    def __init__(self, pieces: list[StoredRagged]) -> None:
        self._pieces = pieces

    @property
    def row_nbytes(self) -> int:
        """Bytes of the index."""
        return 2 * _ENTRY.itemsize * len(self._pieces)

    def read(self, first: int, last: int) -> Lane:
        """Return offsets and sizes, uint8 (n, nbytes)."""
        entries = np.zeros((last - first, len(self._pieces), 2), np.int64)
        for number, piece in enumerate(self._pieces):
            entries[:, number, 1] = piece.sizes(first, last)
        np.cumsum(entries[:, :-1, 1], axis=1, out=entries[:, 1:, 0])
        return _as_bytes(entries.astype(_ENTRY), last - first)


def read_column(store: FrameStore, id_: str, dtype: np.dtype[Any], count: int) -> AnyArray:
    """Return a clip of `count` numbers."""
    clip = store[id_]
    if clip.shape != (count,) or clip.dtype != dtype:
        raise damaged(f"clip {id_!r:.80} is {clip.dtype} {clip.shape}, not {dtype} ({count},)")
    return clip.read()


def text_of(plan: Mapping[str, Any], name: str) -> str:
    """Return a text of a plan; raise `FormatError` for another type."""
    value = plan.get(name)
    if not isinstance(value, str):
        raise damaged(f"{name} is {value!r:.80}, not a text")
    return value


def count_of(plan: Mapping[str, Any], name: str) -> int:
    """Return a number of a plan; raise `FormatError` unless it is an integer of 0 or more."""
    value = plan.get(name)
    if type(value) is not int or value < 0:
        raise damaged(f"{name} is {value!r:.80}, not a number of 0 or more")
    return value


def _as_bytes(rows: AnyArray, count: int) -> AnyArray:
    """Return the bytes of the items of an array, uint8 (n, nbytes)."""
    return np.ascontiguousarray(rows).reshape(count, -1).view(np.uint8)
