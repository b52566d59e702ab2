"""Statistics of the items of each chunk: least and greatest one, number of NaN, and sum.

::

    record = min(8) max(8) nan(8) sum(8)

`min`, `max` and `sum` are signed integers, unsigned integers or floats of 64 bits, which hold every
item exactly; those of times are their integers. Sums of integers are modulo 2^64. NaN and NaT are
counted in `nan`, and in nothing else.

Pure: bytes in, values out. Layout: docs/formats/bloscpack.md, "Statistics".
"""

from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from .._ext.statistics import measure
from ..exceptions import FormatError
from ..types import AnyArray, BytesLike, IntArray

_RECORD = Struct("<4Q")

_FLOATS = ("float16", "bfloat16", "float32", "float64")
# Stored types of min, max and sum, by the kind of the dtype; bfloat16 has the kind V.
_WIDE = {"b": "<u8", "u": "<u8", "i": "<i8", "f": "<f8", "V": "<f8", "m": "<i8", "M": "<i8"}


# Bits of a NaN, and NaT.
_NAN = 0x7FF8 << 48
_NAT = 1 << 63


class Statistics(NamedTuple):
    """Statistics of chunks of an array.

    Attributes
    ----------
    dtype : dtype
        Type of the items.
    """

    dtype: "np.dtype[Any]"

    @staticmethod
    def are_of(dtype: "np.dtype[Any]") -> bool:
        """Return whether items of `dtype` have statistics."""
        return dtype.kind in "biumM" or dtype.name in _FLOATS

    @classmethod
    def of(cls, dtype: "np.dtype[Any]") -> "Statistics":
        """Return the statistics of an array; TypeError for items that have none."""
        if not cls.are_of(dtype):
            raise TypeError(
                "stats=True is for integers, floats of at most 64 bits, bool and times, not "
                f"for {dtype!s:.80}"
            )
        return cls(dtype)

    @classmethod
    def stored(cls, dtype: "np.dtype[Any]", chunk_size: int) -> "Statistics":
        """Return the statistics of an array whose file has them, with chunks of `chunk_size` bytes.

        FormatError if such items, or parts of items, have none.
        """
        try:
            found = cls.of(dtype)
        except TypeError:
            raise _error(f"it has statistics of {dtype!s:.80}") from None
        if chunk_size % dtype.itemsize:
            raise _error(f"it has statistics of {chunk_size} bytes, not whole items of {dtype}")
        return found

    def record(self, content: BytesLike) -> bytes:
        """Return the stored statistics of the content of a chunk; the GIL is released.

        Items that are rounded are so already.
        """
        view = memoryview(content)
        if not view.nbytes:
            return _RECORD.pack(self._none, self._none, 0, 0)
        view = view.cast("B")
        dtype = self.dtype
        items = np.require(np.frombuffer(view, dtype), dtype.newbyteorder("="), "A")
        name = {"b": "uint8", "m": "time", "M": "time"}.get(dtype.kind, dtype.name)
        low, high, nan, total = measure(items.view(np.uint8), name)
        if nan == items.size:
            low = high = self._none
        return _RECORD.pack(low, high, nan, total)

    @property
    def _none(self) -> int:
        """Bits of the stored min and max of a chunk without items other than NaN."""
        return {"f": _NAN, "V": _NAN, "m": _NAT, "M": _NAT}.get(self.dtype.kind, 0)

    def _columns(self, stored: BytesLike) -> list[AnyArray]:
        """Return min, max, nan and sum of all chunks, in the byte order of the machine."""
        wide = np.dtype(_WIDE[self.dtype.kind])
        types = {"min": wide, "max": wide, "nan": np.dtype("<i8"), "sum": wide}
        found = np.frombuffer(stored, [*types.items()])
        return [found[name].astype(each.newbyteorder("=")) for name, each in types.items()]

    def unpack(self, stored: BytesLike, counts: IntArray) -> AnyArray:
        """Return the statistics of chunks as records.

        Parameters
        ----------
        stored : bytes-like
            The records as stored.
        counts : ndarray of int
            The number of items of each chunk.

        Returns
        -------
        ndarray
            Records of ``min`` and ``max``, which have the dtype of the array, ``nan`` and ``sum``.

        Raises
        ------
        FormatError
            A chunk with this number of items cannot have these statistics.
        """
        low, high, nan, total = self._columns(stored)
        own, is_time = self.dtype.newbyteorder("="), self.dtype.kind in "mM"
        records = np.empty(
            len(low), [("min", own), ("max", own), ("nan", nan.dtype), ("sum", total.dtype)]
        )
        records["nan"], records["sum"] = nan, total
        is_empty = nan == counts
        is_sound = (nan >= 0) & (nan <= (counts if self._none else 0)) & (is_empty | (low <= high))
        for name, values in (("min", low), ("max", high)):
            with np.errstate(all="ignore"):
                items = values.view(own) if is_time else values.astype(own)
                again = items.view(values.dtype) if is_time else items.astype(values.dtype)
            records[name] = items
            is_none = values.view(np.uint64) == self._none
            is_sound &= np.where(is_empty, is_none, (again == values) & ~(is_time & is_none))
        if not is_sound.all():
            index = int(np.argmin(is_sound))
            raise _error(
                f"the statistics of chunk {index} are {records[index]}, which no {counts[index]} "
                f"items of {own} have"
            )
        return records

    def first_difference(self, stored: BytesLike, computed: BytesLike) -> int | None:
        """Return the first chunk whose stored statistics are wrong; None without one.

        Zeros are equal, with any sign.
        """
        is_same: Any = True
        for one, two in zip(self._columns(stored), self._columns(computed), strict=True):
            is_same &= (one == two) | ((one != one) & (two != two))
        return None if is_same.all() else int(np.argmin(is_same))


def _error(what: str) -> FormatError:
    return FormatError(f"statistics: {what}", field="statistics")
