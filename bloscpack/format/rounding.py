"""Rounding of floats to fewer mantissa bits before compression: the option ``keepbits``.

The mantissa bits that are dropped become zeros, which compress well. The nearest kept value is
chosen, of two equally near ones the one whose last kept bit is 0. The bits of a float, read as an
integer, ascend with its magnitude. So rounding that integer rounds the float, also across a power
of two, among denormal numbers, and from the largest finite value to infinity. BitRound of
numcodecs gives the same bits, except for NaN, whose payload is kept here. netCDF keeps NaN too, but
rounds away from zero where both kept values are equally near.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..exceptions import FormatError
from ..types import BytesLike
from .metadata import describes_array

# Attribute under which netCDF records the number of kept bits.
ATTRIBUTE = "_QuantizeBitRoundNumberOfSignificantBits"

# Explicit mantissa bits of the types, by the name of the dtype. All have IEEE 754's infinities: in
# the other types of ml_dtypes, the largest value has no value to be rounded up to.
MANTISSA_BITS = {
    "float16": 10,
    "float32": 23,
    "float64": 52,
    "complex64": 23,
    "complex128": 52,
    "bfloat16": 7,
    "float8_e3m4": 4,
    "float8_e4m3": 3,
    "float8_e5m2": 2,
}


class Rounding(NamedTuple):
    """Rounding of all items of an array.

    Attributes
    ----------
    keepbits : int
        Mantissa bits to keep.
    mantissa_bits : int
        Mantissa bits of the type.
    integer : str
        Unsigned integer with the size and byte order of a float: "<u4".
    """

    keepbits: int
    mantissa_bits: int
    integer: str

    @property
    def itemsize(self) -> int:
        """Size in bytes of what is rounded: an item, or one part of a complex number."""
        return int(self.integer[2:])

    @classmethod
    def of(cls, dtype: "np.dtype[Any]", keepbits: Any) -> "Rounding":
        """Return the rounding of items of `dtype`; both parts of a complex number are rounded.

        Raises
        ------
        TypeError
            `dtype` is not a float that can be rounded, or `keepbits` is not an integer.
        ValueError
            `keepbits` is not between 1 and the number of mantissa bits.
        """
        mantissa_bits = MANTISSA_BITS.get(dtype.name)
        if mantissa_bits is None:
            raise TypeError(
                f"keepbits rounds {', '.join(MANTISSA_BITS)}; the array has dtype {dtype}"
            )
        if isinstance(keepbits, bool) or not hasattr(keepbits, "__index__"):
            raise TypeError(f"keepbits must be an integer, not {keepbits!r:.80}")
        count = keepbits.__index__()
        if not 1 <= count <= mantissa_bits:
            raise ValueError(
                f"keepbits must be 1 to {mantissa_bits}, the mantissa bits of {dtype.name}, "
                f"not {count}"
            )
        itemsize = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
        integer = np.dtype(f"u{itemsize}").newbyteorder(dtype.byteorder)
        return cls(count, mantissa_bits, integer.str)

    @classmethod
    def stored(cls, metadata: Any, dtype: "np.dtype[Any]", chunk_size: int) -> "Rounding | None":
        """Return the rounding that the metadata of an array name; None without one.

        Raises
        ------
        FormatError
            It does not fit the dtype or the attrs, or chunks of `chunk_size` bytes cut items.
        """
        keepbits = metadata.get("keepbits") if describes_array(metadata) else None
        if keepbits is None:
            return None
        try:
            rounding = cls.of(dtype, keepbits)
            rounding.check_attrs(metadata.get("attrs", {}))
        except (TypeError, ValueError) as err:
            raise FormatError(f"metadata: {err}", field="keepbits") from err
        if chunk_size % rounding.itemsize:
            raise FormatError(
                f"metadata: keepbits needs chunks of whole items; they have {chunk_size} bytes, "
                f"and {dtype} has {dtype.itemsize}",
                field="keepbits",
            )
        return rounding

    def check_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Check that `attrs` do not name another number of bits.

        Raises
        ------
        ValueError
            They do.
        TypeError
            They are not a mapping.
        """
        if not isinstance(attrs, Mapping):
            raise TypeError(f"attrs are a {type(attrs).__name__}, expected a mapping")
        found = attrs.get(ATTRIBUTE, self.keepbits)
        if found != self.keepbits:
            raise ValueError(
                f"attrs: {ATTRIBUTE} is {found!r:.80}, but the array is written with "
                f"keepbits={self.keepbits}; remove the entry"
            )

    def record(self, attrs: dict[str, Any]) -> None:
        """Set the attribute of netCDF; raises as `check_attrs` does."""
        self.check_attrs(attrs)
        attrs[ATTRIBUTE] = self.keepbits

    def apply(self, content: BytesLike) -> BytesLike:
        """Return rounded items; `content` is not changed.

        Raises
        ------
        ValueError
            `content` does not consist of whole items.
        """
        if len(content) % self.itemsize:
            raise ValueError(
                f"{len(content)} bytes to be rounded are not whole items of {self.itemsize} bytes"
            )
        dropped = self.mantissa_bits - self.keepbits
        if not dropped or not len(content):
            return content
        stored = np.frombuffer(content, self.integer)
        bits = stored.astype(stored.dtype.newbyteorder("="), copy=False)
        integer = bits.dtype.type
        rounded = bits >> integer(dropped)
        rounded &= integer(1)
        rounded += integer((1 << dropped - 1) - 1)
        rounded += bits
        rounded >>= integer(dropped)
        rounded <<= integer(dropped)
        # An exponent of ones is infinity or NaN, of which rounding could make another number.
        exponent = integer((1 << 8 * bits.itemsize - 1) - (1 << self.mantissa_bits))
        np.copyto(rounded, bits, where=(bits & exponent) == exponent)
        result: memoryview = rounded.astype(stored.dtype, copy=False).view(np.uint8).data
        return result
