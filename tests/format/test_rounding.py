"""Rounding of floats: known answers, exact arithmetic, numcodecs, and the bound of the error."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError
from bloscpack.format.rounding import ATTRIBUTE, MANTISSA_BITS, Rounding

from ..strategies import AnyArray

PLAIN = ["float16", "float32", "float64", "complex64", "complex128"]
EXTENSIONS = sorted(set(MANTISSA_BITS) - set(PLAIN))
# Smallest exponent of a normal number.
MIN_EXPONENT = {
    "float16": -14,
    "float32": -126,
    "float64": -1022,
    "bfloat16": -126,
    "float8_e3m4": -2,
    "float8_e4m3": -6,
    "float8_e5m2": -14,
}
each_type = pytest.mark.parametrize("name", [*PLAIN, *EXTENSIONS])


def dtype_of(name: str) -> Any:
    if name not in EXTENSIONS:
        return np.dtype(name)
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))


def rounded(array: AnyArray, keepbits: int) -> AnyArray:
    """Return the rounded array, after a check that the given one was not changed."""
    stored = array.reshape(-1).view("u1").data.toreadonly()
    before = bytes(stored)
    found = Rounding.of(array.dtype, keepbits).apply(stored)
    assert bytes(stored) == before
    return np.frombuffer(found, array.dtype).reshape(array.shape)


def float_of(dtype: Any) -> Any:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def bits_of(array: AnyArray) -> AnyArray:
    return array.view(f"u{float_of(array.dtype).itemsize}")


def patterns(dtype: Any, seed: int, count: int = 2000) -> AnyArray:
    """Return items of random bits, ties and values next to them, and special values."""
    kind = float_of(dtype)
    nbits = 8 * kind.itemsize
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**nbits, count, f"u{kind.itemsize}", endpoint=False)
    # Few mantissa bits set at any place: ties for each number of kept bits.
    ties = bits >> rng.integers(0, MANTISSA_BITS[dtype.name], count).astype(bits.dtype)
    ties <<= rng.integers(0, MANTISSA_BITS[dtype.name], count).astype(bits.dtype)
    one = bits.dtype.type(1)
    infinity = ((1 << nbits - 1) - 1) >> MANTISSA_BITS[dtype.name] << MANTISSA_BITS[dtype.name]
    special = [0, 1, infinity - 1, infinity, infinity + 1, 2 ** (nbits - 1) - 1]
    special += [value + 2 ** (nbits - 1) for value in special]
    every = [bits, ties, ties + one, ties - one, np.array(special, bits.dtype)]
    return np.concatenate(every).view(dtype)


def exact(value: float, keepbits: int, name: str) -> float:
    """Return the rounded value by exact rational arithmetic; `value` is not NaN."""
    if value in (0, np.inf, -np.inf):
        return value
    exponent = max(int(np.frexp(value)[1]) - 1, MIN_EXPONENT[name])
    quantum = Fraction(2) ** (exponent - keepbits)
    found = round(Fraction(value) / quantum) * quantum  # a Fraction rounds half to even
    limit = Fraction(2) ** (2 - MIN_EXPONENT[name])  # the first power of two beyond all values
    if abs(found) >= limit:
        return np.copysign(np.inf, value)
    return float(np.copysign(float(found), value))


@pytest.mark.sampled(5)
@each_type
def test_exact_arithmetic(name: str) -> None:
    dtype = dtype_of(name)
    part = float_of(dtype)
    array = patterns(dtype, 1)
    if dtype.kind == "c":
        array = array[: len(array) // 2 * 2]
    values = array.view(part)
    for keepbits in {1, 2, MANTISSA_BITS[name] // 2, MANTISSA_BITS[name] - 1, MANTISSA_BITS[name]}:
        found = rounded(array, keepbits).view(part)
        with np.errstate(invalid="ignore"):  # signalling NaN
            is_nan = np.isnan(values)
        assert np.array_equal(bits_of(found)[is_nan], bits_of(values)[is_nan])
        expected = [exact(float(x), keepbits, part.name) for x in values[~is_nan]]
        assert np.array_equal(bits_of(found)[~is_nan], bits_of(np.array(expected, part)))


@pytest.mark.parametrize("name", PLAIN[:3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_numcodecs(name: str, order: str) -> None:
    """BitRound of numcodecs gives the same bits for all but NaN."""
    codecs = pytest.importorskip("numcodecs")
    array = patterns(np.dtype(name), 2)
    array = array[~np.isnan(array)]
    swapped = array.astype(np.dtype(name).newbyteorder(order))
    for keepbits in range(1, MANTISSA_BITS[name] + 1):
        theirs = codecs.BitRound(keepbits).encode(array).view(name)
        assert bits_of(rounded(swapped, keepbits).astype(name)).tolist() == bits_of(theirs).tolist()


# Written by netCDF-C 4.10.1 (netCDF4-python 1.7.5, quantize_mode="BitRound", significant_digits):
# value, bits with 1 bit kept, bits with 3 bits kept.
FROM_NETCDF = [
    (1.0625, 0x3F800000, 0x3F900000),
    (1.1875, 0x3F800000, 0x3FA00000),
    (-1.0625, 0xBF800000, 0xBF900000),
    (1.5, 0x3FC00000, 0x3FC00000),
    (-0.0, 0x80000000, 0x80000000),
    (np.inf, 0x7F800000, 0x7F800000),
    (3.4028235e38, 0x7F800000, 0x7F800000),
    (-3.4028235e38, 0xFF800000, 0xFF800000),
    (-1e-45, 0x80000000, 0x80000000),
    (1e-39, 0x00000000, 0x00100000),
]


def test_netcdf() -> None:
    """NetCDF gives the same bits, except that it rounds ties away from zero."""
    values = np.array([row[0] for row in FROM_NETCDF], "f4")
    for keepbits, at in ((1, 1), (3, 2)):
        found = bits_of(rounded(values, keepbits))
        theirs = np.array([row[at] for row in FROM_NETCDF], "u4")
        is_tie = (keepbits == 3) & (np.abs(values) == 1.0625)
        assert np.array_equal(found[~is_tie], theirs[~is_tie])
        assert np.array_equal(found[is_tie], theirs[is_tie] - (1 << 23 - keepbits))


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(1, 23),
)
def test_bound(value: float, keepbits: int) -> None:
    """The error is at most 2^-(keepbits + 1) of the value, or of the smallest normal number."""
    found = float(rounded(np.array([value], "f4"), keepbits)[0])
    if np.isinf(found):  # half a step below the power of two that has no value
        assert abs(Fraction(value)) >= Fraction(2) ** 128 - Fraction(2) ** (127 - keepbits - 1)
        return
    scale = max(abs(Fraction(value)), Fraction(2) ** -126)
    assert abs(Fraction(found) - Fraction(value)) <= scale / 2 ** (keepbits + 1)
    assert np.signbit(found) == np.signbit(value)


@given(st.floats(allow_nan=True), st.integers(1, 52))
def test_rounding_twice(value: float, keepbits: int) -> None:
    """A rounded value stays as it is; so appending may compress the last chunk again."""
    once = rounded(np.array([value]), keepbits)
    assert rounded(once, keepbits).tobytes() == once.tobytes()
    if not np.isnan(value):
        assert int(bits_of(once)[0]) & ((1 << 52 - keepbits) - 1) == 0


def test_no_items() -> None:
    assert bytes(Rounding.of(np.dtype("f4"), 3).apply(memoryview(b""))) == b""


@pytest.mark.parametrize(
    "dtype", ["i4", "?", "S4", "M8[s]", "V4", [("a", "f4")], "f4,f4", np.longdouble, "c32"], ids=str
)
def test_other_types(dtype: Any) -> None:
    with pytest.raises(TypeError, match="keepbits rounds float16, float32"):
        Rounding.of(np.dtype(dtype), 1)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2fnuz", "float4_e2m1fn", "int4"])
def test_types_without_infinity(name: str) -> None:
    with pytest.raises(TypeError, match=f"the array has dtype {name}"):
        Rounding.of(np.dtype(getattr(pytest.importorskip("ml_dtypes"), name)), 1)


@each_type
def test_types_have_infinity(name: str) -> None:
    """The table is right: these bits are those of infinity."""
    part = float_of(dtype_of(name))
    nbits = 8 * part.itemsize
    infinity = ((1 << nbits - 1) - 1) >> MANTISSA_BITS[name] << MANTISSA_BITS[name]
    assert np.isinf(np.array([infinity], f"u{part.itemsize}").view(part)[0])


@each_type
def test_range(name: str) -> None:
    dtype = dtype_of(name)
    for keepbits in (0, -1, MANTISSA_BITS[name] + 1):
        with pytest.raises(ValueError, match=f"1 to {MANTISSA_BITS[name]}, the mantissa bits of"):
            Rounding.of(dtype, keepbits)
    for wrong in (True, 2.0, "3"):
        with pytest.raises(TypeError, match="keepbits must be an integer"):
            Rounding.of(dtype, wrong)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"keepbits": 24}, "keepbits must be 1 to 23"),
        ({"keepbits": "9"}, "keepbits must be an integer"),
        ({"keepbits": 9, "attrs": []}, "attrs are a list"),
        ({"keepbits": 9, "attrs": {ATTRIBUTE: 8}}, f"{ATTRIBUTE} is 8"),
    ],
)
def test_stored(metadata: Any, message: str) -> None:
    metadata = {"container": "numpy", **metadata}
    with pytest.raises(FormatError, match=message):
        Rounding.stored(metadata, np.dtype("f4"), 400)


def test_stored_chunk_size() -> None:
    metadata = {"container": "numpy", "keepbits": 9}
    with pytest.raises(FormatError, match="keepbits needs chunks of whole items"):
        Rounding.stored(metadata, np.dtype("f4"), 402)
    assert Rounding.stored(metadata, np.dtype("f4"), 400) == (9, 23, "<u4")
    assert Rounding.stored({"keepbits": 9}, np.dtype("f4"), 400) is None
    assert Rounding.stored({}, np.dtype("f4"), 402) is None
    assert Rounding.stored(None, np.dtype("f4"), 402) is None
